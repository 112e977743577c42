//! Requests to devices (ioctl): real-time clocks, graphics cards, keyboards and mice.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::checked;

// Requests of <linux/rtc.h>: `_IO('p', 0x05)`, `_IO('p', 0x06)`, `_IOW('p', 0x0c, unsigned long)`.
const RTC_PIE_ON: libc::Ioctl = 0x7005;
const RTC_PIE_OFF: libc::Ioctl = 0x7006;
const RTC_IRQP_SET: libc::Ioctl =
    (0x4000_700c_u32 | ((size_of::<libc::c_ulong>() as u32) << 16)) as libc::Ioctl;

/// Sets how often a real-time clock interrupts, Hz.
///
/// # Errors
/// If the clock does not support the rate, or if this process may not set it.
pub fn set_rtc_rate(rtc: BorrowedFd<'_>, rate_hz: u32) -> io::Result<()> {
    // SAFETY: takes numbers.
    checked(unsafe { libc::ioctl(rtc.as_raw_fd(), RTC_IRQP_SET, libc::c_ulong::from(rate_hz)) }).map(|_| ())
}

/// Whether a real-time clock interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// The clock interrupts once a period.
    On,
    /// The clock makes no periodic interrupts.
    Off,
}

/// Switches a real-time clock's periodic interrupts.
///
/// # Errors
/// If the clock has no periodic interrupts.
pub fn switch_rtc(rtc: BorrowedFd<'_>, interrupts: Interrupts) -> io::Result<()> {
    let request = match interrupts {
        Interrupts::On => RTC_PIE_ON,
        Interrupts::Off => RTC_PIE_OFF,
    };
    // SAFETY: takes numbers.
    checked(unsafe { libc::ioctl(rtc.as_raw_fd(), request, 0) }).map(|_| ())
}

/// Whether this descriptor is now the master of its graphics card: the screen shows the master's pictures.
pub fn is_drm_master(card: BorrowedFd<'_>) -> bool {
    /// `DRM_IOCTL_AUTH_MAGIC` with a number that no client has. A master gets the error that the number is
    /// wrong, and any other descriptor gets the error that it has no permission.
    const AUTH_MAGIC: libc::c_ulong = 1 << 30 | 4 << 16 | (b'd' as libc::c_ulong) << 8 | 0x11;
    let magic = 0_u32;
    // SAFETY: the request reads four bytes, which outlive the call.
    let done = unsafe { libc::ioctl(card.as_raw_fd(), AUTH_MAGIC as _, &raw const magic) };
    done == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// How many bytes the kernel's set of keys has.
pub const KEYS: usize = 0x300 / 8;

/// The keys and buttons of an input device, one bit each, by their numbers in <linux/input-event-codes.h>;
/// `None` if it is no input device.
pub fn keys_of(device: BorrowedFd<'_>) -> Option<[u8; KEYS]> {
    const EV_KEY: libc::c_ulong = 1;
    /// `EVIOCGBIT(EV_KEY, KEYS)`.
    const GET_KEYS: libc::c_ulong =
        2 << 30 | (KEYS as libc::c_ulong) << 16 | (b'E' as libc::c_ulong) << 8 | (0x20 + EV_KEY);
    let mut keys = [0_u8; KEYS];
    // SAFETY: the request writes as many bytes as it names, into an array that long.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), GET_KEYS as _, keys.as_mut_ptr()) };
    (done >= 0).then_some(keys)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn dev_null_has_no_keys_no_clock_and_is_no_drm_master() {
        let null = File::open("/dev/null").expect("it is there");
        assert!(!is_drm_master(null.as_fd()) && keys_of(null.as_fd()).is_none());
        assert!(
            set_rtc_rate(null.as_fd(), 64).is_err() && switch_rtc(null.as_fd(), Interrupts::Off).is_err()
        );
    }

    #[test]
    fn a_real_time_clock_takes_its_rate() {
        // Not every machine has such a clock, and a clock that another process uses is not opened.
        let Ok(rtc) = File::open("/dev/rtc0") else { return };
        if set_rtc_rate(rtc.as_fd(), 64).is_ok() && switch_rtc(rtc.as_fd(), Interrupts::On).is_ok() {
            assert!(crate::clock::read_u64(rtc.as_fd()).expect("it interrupts") > 0);
            switch_rtc(rtc.as_fd(), Interrupts::Off).expect("it can be switched off");
        }
    }
}
