//! Alarm signals at set times, and how late each reached its process.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::RunError;
use super::sys;

/// Somebody has the process' alarm clock.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// When the next alarm is due, ns.
static DUE_NS: AtomicU64 = AtomicU64::new(0);
/// How many alarms have come.
static COME: AtomicUsize = AtomicUsize::new(0);
/// How many there will be.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The times between alarms, ns; each is overwritten by the lateness of its alarm, with `LATE` set.
static TIMES: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// The kernel's timer.
static TIMER: AtomicUsize = AtomicUsize::new(0);

/// A process' alarm clock: so many alarms, one after the other, each set by the signal of the one before.
pub(crate) struct AlarmClock {
    intervals_ns: Vec<u64>,
}

extern "C" fn alarm(_: i32) {
    let now_ns = sys::now_ns();
    let at = COME.load(Ordering::SeqCst);
    if at >= COUNT.load(Ordering::SeqCst) {
        return;
    }
    let due_ns = DUE_NS.load(Ordering::SeqCst);
    let times = TIMES.load(Ordering::SeqCst);
    // SAFETY: the pointer is to as many pairs as there are alarms, never given back.
    let (late, when) = unsafe { (&*times.add(3 * at + 1), &*times.add(3 * at + 2)) };
    late.store(now_ns.saturating_sub(due_ns), Ordering::SeqCst);
    when.store(due_ns, Ordering::SeqCst);
    COME.store(at + 1, Ordering::SeqCst);
    if at + 1 < COUNT.load(Ordering::SeqCst) {
        // SAFETY: as above; the next alarm is within the count.
        let interval_ns = unsafe { (*times.add(3 * (at + 1))).load(Ordering::SeqCst) };
        set(now_ns + interval_ns);
    }
}

/// Sets the timer; what a signal handler may do.
fn set(due_ns: u64) {
    DUE_NS.store(due_ns, Ordering::SeqCst);
    // SAFETY: all zeros is a valid setting.
    let mut setting: libc::itimerspec = unsafe { mem::zeroed() };
    setting.it_value = sys::timespec(due_ns.max(1));
    let timer = TIMER.load(Ordering::SeqCst) as libc::timer_t;
    // SAFETY: the timer was made before any alarm was set, and is deleted after the last.
    unsafe { libc::timer_settime(timer, libc::TIMER_ABSTIME, &raw const setting, std::ptr::null_mut()) };
}

impl AlarmClock {
    /// An alarm clock for the calling process, which must have one thread, and can have one such clock only.
    pub(crate) fn new(intervals_ns: Vec<u64>) -> Result<Self, RunError> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(RunError::Failed("tasks with alarms need a process each".into()));
        }
        // Interval, lateness, time due of each alarm.
        let times: Vec<AtomicU64> = intervals_ns
            .iter()
            .flat_map(|&ns| [AtomicU64::new(ns), AtomicU64::new(0), AtomicU64::new(0)])
            .collect();
        COUNT.store(intervals_ns.len(), Ordering::SeqCst);
        TIMES.store(times.leak().as_mut_ptr(), Ordering::SeqCst);
        sys::on_signal(libc::SIGALRM, alarm);
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: the pointer is to a timer of our own; without an event the signal is SIGALRM.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, std::ptr::null_mut(), &raw mut timer) };
        if made != 0 {
            return Err(RunError::Failed(format!("no timer: {}", std::io::Error::last_os_error())));
        }
        TIMER.store(timer as usize, Ordering::SeqCst);
        Ok(Self { intervals_ns })
    }

    /// Sets the first alarm.
    pub(crate) fn start(&self) {
        if let Some(interval_ns) = self.intervals_ns.first() {
            set(sys::now_ns() + interval_ns);
        }
    }

    /// How many alarms have come.
    pub(crate) fn come(&self) -> usize {
        COME.load(Ordering::SeqCst)
    }

    /// The time from an alarm to the one after it, ns; `None` after the last.
    pub(crate) fn interval_after_ns(&self, alarms: usize) -> Option<u64> {
        self.intervals_ns.get(alarms).copied()
    }

    /// Blocks until more than so many alarms have come, or another signal comes.
    pub(crate) fn wait_beyond(&self, seen: usize) {
        // SAFETY: all zeros is a valid set, which the next calls fill in.
        let (mut alarm_alone, mut before) = unsafe { (mem::zeroed::<libc::sigset_t>(), mem::zeroed()) };
        // SAFETY: the sets are of our own; what was blocked before is blocked again after.
        unsafe {
            libc::sigemptyset(&raw mut alarm_alone);
            libc::sigaddset(&raw mut alarm_alone, libc::SIGALRM);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const alarm_alone, &raw mut before);
            if self.come() <= seen {
                libc::sigsuspend(&raw const before);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        }
    }

    /// Stops; the alarms that came: when due and how late, ns.
    pub(crate) fn stop(self) -> Vec<(u64, u64)> {
        // SAFETY: the timer is ours and no longer set after this.
        unsafe { libc::timer_delete(TIMER.load(Ordering::SeqCst) as libc::timer_t) };
        let times = TIMES.load(Ordering::SeqCst);
        // SAFETY: the pointer is to three times for each alarm, never given back.
        let time = |at: usize| unsafe { (*times.add(at)).load(Ordering::SeqCst) };
        (0..self.come()).map(|at| (time(3 * at + 2), time(3 * at + 1))).collect()
    }
}
