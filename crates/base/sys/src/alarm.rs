//! Alarm signals at set times, and how late each reached its process.

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::clock::{monotonic_ns, timespec};
use crate::signal::{self, Waits};
use crate::{Signal, checked};

/// The time at which the next alarm is due, ns of the monotonic clock.
static DUE_NS: AtomicU64 = AtomicU64::new(0);
/// How many alarms have come so far.
static COME: AtomicUsize = AtomicUsize::new(0);
/// The alarms of the process; unset if it has no alarm clock.
static ALARMS: OnceLock<Vec<Alarm>> = OnceLock::new();
/// The kernel's timer that sends the alarms, as a number.
static TIMER: AtomicUsize = AtomicUsize::new(0);

/// An alarm; its lateness and its due time are known once it has come.
#[derive(Debug)]
struct Alarm {
    interval_ns: u64,
    late_ns: AtomicU64,
    due_ns: AtomicU64,
}

/// The alarm clock of a process. It sends a fixed number of `ALARM` signals. The handler of each signal sets
/// the next alarm.
#[derive(Debug)]
pub struct AlarmClock {
    alarms: &'static [Alarm],
}

extern "C" fn alarm(_signal: libc::c_int) {
    let now_ns = monotonic_ns();
    let at = COME.load(Ordering::SeqCst);
    let Some(alarms) = ALARMS.get() else { return };
    let Some(come) = alarms.get(at) else { return };
    let due_ns = DUE_NS.load(Ordering::SeqCst);
    come.late_ns.store(now_ns.saturating_sub(due_ns), Ordering::SeqCst);
    come.due_ns.store(due_ns, Ordering::SeqCst);
    COME.store(at + 1, Ordering::SeqCst);
    if let Some(next) = alarms.get(at + 1) {
        set(now_ns + next.interval_ns);
    }
}

/// Sets the timer for the next alarm. A signal handler may call this.
fn set(due_ns: u64) {
    DUE_NS.store(due_ns, Ordering::SeqCst);
    set_timer(due_ns.max(1));
}

/// Makes the timer expire at a time of the monotonic clock, ns; 0 disarms it.
fn set_timer(at_ns: u64) {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let setting = libc::itimerspec { it_interval: never, it_value: timespec(at_ns) };
    let timer = TIMER.load(Ordering::SeqCst) as libc::timer_t;
    // SAFETY: the timer was made before any alarm was set, and is never deleted.
    unsafe { libc::timer_settime(timer, libc::TIMER_ABSTIME, &raw const setting, ptr::null_mut()) };
}

impl AlarmClock {
    /// Makes an alarm clock for the calling process, with the times between its alarms, ns. The process
    /// should have one thread, since any of its threads may get an alarm.
    ///
    /// # Errors
    /// `EBUSY` if the process has or had such a clock already; otherwise if it can have no timer.
    pub fn new(intervals_ns: Vec<u64>) -> io::Result<AlarmClock> {
        let alarms = intervals_ns.into_iter().map(|interval_ns| Alarm {
            interval_ns,
            late_ns: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
        });
        ALARMS.set(alarms.collect()).map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
        // SAFETY: the handler makes only calls that are async-signal-safe, and allocates no memory.
        unsafe { signal::handle(Signal::ALARM.as_raw(), alarm, Waits::End)? };
        let mut timer: libc::timer_t = ptr::null_mut();
        // SAFETY: the pointer is to a timer of our own; without an event the signal is SIGALRM.
        checked(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, ptr::null_mut(), &raw mut timer) })?;
        TIMER.store(timer as usize, Ordering::SeqCst);
        Ok(AlarmClock { alarms: ALARMS.get().map_or(&[], Vec::as_slice) })
    }

    /// Sets the first alarm.
    pub fn start(&self) {
        if let Some(first) = self.alarms.first() {
            set(monotonic_ns() + first.interval_ns);
        }
    }

    /// How many alarms have come so far.
    pub fn come(&self) -> usize {
        COME.load(Ordering::SeqCst)
    }

    /// The time between alarm number `alarms` and the alarm after it, ns; `None` after the last alarm.
    pub fn interval_after_ns(&self, alarms: usize) -> Option<u64> {
        self.alarms.get(alarms).map(|alarm| alarm.interval_ns)
    }

    /// Blocks until more than `seen` alarms have come, or until another signal comes.
    pub fn wait_beyond(&self, seen: usize) {
        let alarm_alone = signal::set(&[Signal::ALARM]);
        // SAFETY: a set of zeros is a valid set, and the next call fills it in.
        let mut before: libc::sigset_t = unsafe { mem::zeroed() };
        // SAFETY: the sets are our own. After the wait the old signal mask is set again.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const alarm_alone, &raw mut before);
            if self.come() <= seen {
                libc::sigsuspend(&raw const before);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        }
    }

    /// Stops the clock. Returns the due time and the lateness of each alarm that came, ns.
    pub fn stop(self) -> Vec<(u64, u64)> {
        set_timer(0);
        let times =
            |alarm: &Alarm| (alarm.due_ns.load(Ordering::SeqCst), alarm.late_ns.load(Ordering::SeqCst));
        self.alarms.iter().take(self.come()).map(times).collect()
    }
}

/// Makes the interval timer of the process (`setitimer`) send an `ALARM` signal each `period_ns` from now on.
/// The period is rounded down to whole microseconds; below one microsecond the timer stops.
///
/// # Errors
/// `EINVAL` if the period is longer than the kernel's longest.
pub fn set_interval(period_ns: u64) -> io::Result<()> {
    let period = libc::timeval {
        tv_sec: (period_ns / 1_000_000_000) as libc::time_t,
        tv_usec: (period_ns % 1_000_000_000 / 1_000) as libc::suseconds_t,
    };
    let setting = libc::itimerval { it_interval: period, it_value: period };
    // SAFETY: the pointer is to a setting of our own; the old setting is not requested.
    checked(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const setting, ptr::null_mut()) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{outlive, process};

    #[test]
    fn an_interval_timer_sends_a_signal_each_period() {
        // SAFETY: the child takes no lock that another thread may hold.
        let child = unsafe {
            outlive::fork(|| {
                signal::block(&[Signal::ALARM, Signal::USR1]);
                let begun_ns = monotonic_ns();
                if set_interval(2_000_000).is_err() {
                    return 9;
                }
                for nth in 1..=3 {
                    let came = signal::take(&[Signal::ALARM, Signal::USR1]);
                    if came.ok() != Some(Signal::ALARM) || monotonic_ns() < begun_ns + nth * 2_000_000 {
                        return 8;
                    }
                }
                if set_interval(0).is_err() || signal::send(std::process::id(), Signal::USR1).is_err() {
                    return 7;
                }
                // An expiry may have come before the timer stopped.
                let mut came = signal::take(&[Signal::ALARM, Signal::USR1]);
                if came.as_ref().ok() == Some(&Signal::ALARM) {
                    came = signal::take(&[Signal::ALARM, Signal::USR1]);
                }
                i32::from(came.ok() != Some(Signal::USR1))
            })
        };
        assert_eq!(process::wait(child.expect("a child")).expect("it is ours").code(), Some(0));
    }

    #[test]
    fn alarms_come_one_after_another_no_earlier_than_due() {
        let intervals_ns = [1_000_000, 2_000_000, 3_000_000];
        // The child gets no other test's signals.
        // SAFETY: the child takes no lock that another thread may hold.
        let child = unsafe {
            outlive::fork(|| {
                signal::unblock_all();
                let begun_ns = monotonic_ns();
                let Ok(clock) = AlarmClock::new(intervals_ns.to_vec()) else { return 9 };
                if AlarmClock::new(Vec::new()).is_ok() {
                    return 8;
                }
                clock.start();
                for (seen, interval_ns) in intervals_ns.into_iter().enumerate() {
                    if clock.interval_after_ns(seen) != Some(interval_ns) {
                        return 7;
                    }
                    while clock.come() <= seen {
                        clock.wait_beyond(seen);
                    }
                }
                if clock.interval_after_ns(3).is_some() || monotonic_ns() < begun_ns + 6_000_000 {
                    return 6;
                }
                let come = clock.stop();
                let due_ns: Vec<u64> = come.iter().map(|&(due_ns, _)| due_ns).collect();
                i32::from(come.len() != 3 || due_ns[0] < begun_ns + 1_000_000 || !due_ns.is_sorted())
            })
        };
        assert_eq!(process::wait(child.expect("a child")).expect("it is ours").code(), Some(0));
    }
}
