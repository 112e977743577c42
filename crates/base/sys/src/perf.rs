//! Perf's clock as a timer that costs an interrupt and nothing else.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::checked;

/// The first version of `struct perf_event_attr` of <linux/perf_event.h>.
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const PERF_IOC_ENABLE: libc::Ioctl = 0x2400;
const PERF_IOC_DISABLE: libc::Ioctl = 0x2401;

/// A timer. Each expiry costs an interrupt and nothing else: no signal, no wake-up, no record. The timer runs
/// while the thread that made it runs.
///
/// It is perf's event `cpu-clock` without a buffer. A timerfd that is not read expires once only; a POSIX
/// timer without a signal is never armed.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// Makes a timer that does not run yet. Its period, ns, must be at least 10 us.
    ///
    /// # Errors
    /// If this process may not have such an event.
    pub fn new(period_ns: u64) -> io::Result<Timer> {
        let attr = PerfEventAttr {
            kind: PERF_TYPE_SOFTWARE,
            size: size_of::<PerfEventAttr>() as u32,
            config: PERF_COUNT_SW_CPU_CLOCK,
            sample_period: period_ns,
            flags: DISABLED | EXCLUDE_KERNEL,
            ..PerfEventAttr::default()
        };
        const CLOSE_ON_EXEC: libc::c_ulong = 8;
        // SAFETY: the pointer is to a structure that holds its own size. The event is for this thread, any
        // CPU, no group.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, -1, CLOSE_ON_EXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(Timer(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) }))
    }

    /// Starts the timer. It continues with the rest of its period.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(&self) -> io::Result<()> {
        // SAFETY: the call takes numbers.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), PERF_IOC_ENABLE, 0) }).map(|_| ())
    }

    /// Stops the timer.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop(&self) -> io::Result<()> {
        // SAFETY: the call takes numbers.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), PERF_IOC_DISABLE, 0) }).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_starts_and_stops() {
        let timer = match Timer::new(1_000_000) {
            Ok(timer) => timer,
            // Some machines let no ordinary process use perf.
            Err(error) => return assert!(!crate::process::is_root(), "{error}"),
        };
        timer.start().expect("it starts");
        timer.stop().expect("it stops");
    }
}
