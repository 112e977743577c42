//! The kernel's timer behind a queue, as a timerfd.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// The time by the clock that all adapters use (`CLOCK_MONOTONIC`), in ns.
#[inline]
pub fn now_ns() -> u64 {
    ns_of(clock_gettime(ClockId::Monotonic))
}

/// A time of a clock that starts at 0, in ns.
#[inline]
pub(crate) fn ns_of(time: Timespec) -> u64 {
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// A timerfd that expires at the time for which it was last armed. Timer slack does not delay it.
///
/// It is meant for an edge-triggered registration: an expiry is one event, and nothing is read from it.
#[derive(Debug)]
pub struct Backstop {
    timer: OwnedFd,
    armed_ns: Option<u64>,
}

impl Backstop {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// The kernel makes no timerfd, for example because the process has too many descriptors.
    pub fn new() -> io::Result<Backstop> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Backstop { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, armed_ns: None })
    }

    /// Arms the timer for a time of [`now_ns`]'s clock; [`Timers::backstop_ns`](crate::Timers::backstop_ns)
    /// returns it. `None` disarms the timer. A time in the past expires at once. A system call is made only
    /// if the time differs from the previous one.
    ///
    /// # Errors
    /// The errors of `timerfd_settime(2)`; none is known for a valid timer.
    pub fn arm(&mut self, at_ns: Option<u64>) -> io::Result<()> {
        if self.armed_ns == at_ns {
            return Ok(());
        }
        // 0 would disarm it.
        let it_value = at_ns.map_or(timespec(0), |at_ns| timespec(at_ns.max(1)));
        let setting = Itimerspec { it_interval: timespec(0), it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed_ns = at_ns;
        Ok(())
    }

    /// Notes that the timer has expired: call it for each event of the descriptor.
    pub fn note_expiry(&mut self) {
        self.armed_ns = None;
    }
}

/// A time in ns as the kernel's structure.
fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / NS_PER_S) as i64, tv_nsec: (ns % NS_PER_S) as i64 }
}

impl AsFd for Backstop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

impl AsRawFd for Backstop {
    fn as_raw_fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }
}
