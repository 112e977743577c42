//! The sources of a sampling thread's wake-ups: a sleep, a timer's descriptor, or a real-time clock.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spry_sys::clock;
use spry_sys::device::{self, Interrupts};

use crate::error::{Error, Result};

/// The source of the threads' wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `clock_nanosleep` to an absolute time, as cyclictest does.
    #[default]
    Nanosleep,
    /// A read of a periodic `timerfd`.
    Timerfd,
    /// A read of `/dev/rtc0`, which its periodic interrupt ends, as in realfeel.
    Rtc,
}

impl Source {
    /// The source's name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Source::Nanosleep => "nanosleep",
            Source::Timerfd => "timerfd",
            Source::Rtc => "rtc",
        }
    }
}

/// A wake-up that was waited for.
pub(crate) struct Wake {
    /// The due time of the wake-up, ns of the monotonic clock.
    pub(crate) due_ns: u64,
    /// The time at which the thread read the clock, ns of the monotonic clock.
    pub(crate) woken_ns: u64,
    /// The number of further wake-ups that were due before the thread ran.
    pub(crate) missed: u64,
}

/// Wakes the calling thread once a period.
pub(crate) trait Alarm {
    /// Begins anew, with the first wake-up due at `first_ns` (a real-time clock keeps its own times).
    fn start(&mut self, first_ns: u64) -> Result<()>;

    /// The due time of the next wake-up, ns of the monotonic clock.
    fn due_ns(&self) -> u64;

    /// Waits for the next wake-up.
    fn wait(&mut self) -> io::Result<Wake>;
}

/// Absolute sleeps.
pub(crate) struct Sleep {
    pub(crate) period_ns: u64,
    pub(crate) due_ns: u64,
}

impl Alarm for Sleep {
    fn start(&mut self, first_ns: u64) -> Result<()> {
        self.due_ns = first_ns;
        Ok(())
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.due_ns
    }

    #[inline]
    fn wait(&mut self) -> io::Result<Wake> {
        let due_ns = self.due_ns;
        clock::sleep_until(due_ns);
        let woken_ns = clock::monotonic_ns();
        self.due_ns = due_ns + self.period_ns;
        let missed = if woken_ns >= self.due_ns { self.skip(woken_ns) } else { 0 };
        Ok(Wake { due_ns, woken_ns, missed })
    }
}

impl Sleep {
    /// Skips the wake-ups that are due already, and returns their number.
    #[cold]
    fn skip(&mut self, woken_ns: u64) -> u64 {
        let missed = 1 + (woken_ns - self.due_ns) / self.period_ns;
        self.due_ns += missed * self.period_ns;
        missed
    }
}

/// A `timerfd`, which counts its expiries itself.
pub(crate) struct Timer {
    period_ns: u64,
    due_ns: u64,
    timer: Option<OwnedFd>,
}

impl Timer {
    pub(crate) fn new(period_ns: u64) -> Timer {
        Timer { period_ns, due_ns: 0, timer: None }
    }
}

impl Alarm for Timer {
    fn start(&mut self, first_ns: u64) -> Result<()> {
        self.due_ns = first_ns;
        let timer = clock::timer(first_ns, self.period_ns);
        self.timer = Some(timer.map_err(|error| Error::System { what: "set a timer", error })?);
        Ok(())
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.due_ns
    }

    #[inline]
    fn wait(&mut self) -> io::Result<Wake> {
        let timer = self.timer.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let expiries = clock::read_u64(timer.as_fd())?;
        let woken_ns = clock::monotonic_ns();
        let due_ns = self.due_ns;
        self.due_ns += expiries * self.period_ns;
        Ok(Wake { due_ns, woken_ns, missed: expiries - 1 })
    }
}

/// A real-time clock's periodic interrupt. The device gives no due times. As in the article (Measuring
/// Scheduler Latency), an interrupt counts as due one period after the last read returned. So one late return
/// makes the next return early, and an early return counts as no latency.
pub(crate) struct Rtc {
    device: OwnedFd,
    period_ns: u64,
    last_ns: u64,
}

/// The possible device files of a real-time clock.
const RTC: [&str; 2] = ["/dev/rtc0", "/dev/rtc"];

impl Rtc {
    /// Opens the clock; while it is open, no other process can open it.
    pub(crate) fn open(rate_hz: u32, period_ns: u64) -> Result<Rtc> {
        let open = |path: &str| OpenOptions::new().read(true).open(path);
        let opened = open(RTC[0]).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => open(RTC[1]),
            _ => Err(error),
        });
        let path = || PathBuf::from(RTC[0]);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::NoRtc { path: path(), error },
            _ => Error::File { path: path(), error },
        })?;
        let device = OwnedFd::from(file);
        device::set_rtc_rate(device.as_fd(), rate_hz).map_err(|error| Error::RtcRate { rate_hz, error })?;
        Ok(Rtc { device, period_ns, last_ns: 0 })
    }

    /// Whether this machine has a real-time clock.
    pub(crate) fn is_there() -> bool {
        RTC.iter().any(|path| Path::new(path).exists())
    }
}

impl Alarm for Rtc {
    fn start(&mut self, _first_ns: u64) -> Result<()> {
        let cannot = |error| Error::System { what: "have the real-time clock interrupt", error };
        device::switch_rtc(self.device.as_fd(), Interrupts::On).map_err(cannot)?;
        clock::read_u64(self.device.as_fd()).map_err(cannot)?;
        self.last_ns = clock::monotonic_ns();
        Ok(())
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.last_ns + self.period_ns
    }

    #[inline]
    fn wait(&mut self) -> io::Result<Wake> {
        // The lowest byte has flags, the other bytes have the number of interrupts.
        let interrupts = clock::read_u64(self.device.as_fd())? >> 8;
        let woken_ns = clock::monotonic_ns();
        let due_ns = self.last_ns + self.period_ns;
        self.last_ns = woken_ns;
        Ok(Wake { due_ns, woken_ns, missed: interrupts.saturating_sub(1) })
    }
}

impl Drop for Rtc {
    fn drop(&mut self) {
        // If this fails, the interrupts go off when the clock is closed.
        let _ = device::switch_rtc(self.device.as_fd(), Interrupts::Off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sleeper_passes_over_what_was_due_meanwhile() {
        let mut sleep = Sleep { period_ns: 500_000, due_ns: 1_000_000 };
        // Due at 1.0 ms; 20.1 ms later, the periods up to 21.0 ms have begun.
        assert_eq!(sleep.skip(21_100_000), 41);
        assert_eq!(sleep.due_ns, 21_500_000);
    }

    #[test]
    fn a_timer_that_was_not_read_in_time_says_how_often_it_expired() {
        let mut timer = Timer::new(1_000_000);
        let first_ns = clock::monotonic_ns() + 1_000_000;
        timer.start(first_ns).unwrap();
        clock::sleep_until(first_ns + 5_500_000);
        let late = timer.wait().unwrap();
        assert_eq!(late.due_ns, first_ns);
        assert!(late.missed >= 5, "{}", late.missed);
        let next = timer.wait().unwrap();
        assert_eq!(next.due_ns, first_ns + (late.missed + 1) * 1_000_000);
        assert!(next.woken_ns >= next.due_ns);
    }
}
