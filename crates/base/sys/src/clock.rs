//! The kernel's clocks and timers, all in ns.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::checked;

/// No process of any kernel has a higher number (`PID_MAX_LIMIT`).
const PROCESSES_MAX: u32 = 1 << 22;

/// The time of the monotonic clock, ns. The C library reads it without entering the kernel.
#[inline]
pub fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// The time of the kernel's own monotonic clock, ns. BPF programs, tracepoints and `/proc/timer_list` have
/// times of this clock. In a time namespace the process' monotonic clock differs from it.
#[inline]
pub fn kernel_ns() -> u64 {
    to_kernel_ns(monotonic_ns())
}

/// The time of the kernel's own monotonic clock that is `ns` on this process' monotonic clock.
#[inline]
pub fn to_kernel_ns(ns: u64) -> u64 {
    ns.saturating_add_signed(ahead_of_kernel_ns().saturating_neg())
}

/// The time of this process' monotonic clock that is `ns` on the kernel's own monotonic clock.
#[inline]
pub fn from_kernel_ns(ns: u64) -> u64 {
    ns.saturating_add_signed(ahead_of_kernel_ns())
}

/// How far this process' monotonic clock is ahead of the kernel's own, ns; 0 outside of time namespaces. A
/// process keeps its time namespace until it ends.
fn ahead_of_kernel_ns() -> i64 {
    static AHEAD: OnceLock<i64> = OnceLock::new();
    *AHEAD.get_or_init(|| {
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
        // The file has the offsets of the namespace of this process' next child.
        let is_own = namespace("time") == namespace("time_for_children");
        let text = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        monotonic_offset_ns(&text).filter(|_| is_own).unwrap_or(0)
    })
}

/// The monotonic clock's offset in a list of the clocks' offsets. Before 5.7 kernels named the clocks
/// by their numbers.
fn monotonic_offset_ns(offsets: &str) -> Option<i64> {
    offsets.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let _clock = words.next().filter(|&clock| clock == "monotonic" || clock == "1")?;
        let seconds: i64 = words.next()?.parse().ok()?;
        let ns: i64 = words.next()?.parse().ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(ns)
    })
}

/// Wall-clock time since the UNIX epoch, ns.
#[inline]
pub fn unix_ns() -> u64 {
    now_ns(libc::CLOCK_REALTIME)
}

/// The CPU time that the calling thread has used, ns.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    now_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The CPU time that all threads of this process have used, ns.
#[inline]
pub fn own_cpu_ns() -> u64 {
    now_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The time of a clock that is always there. Measurements call this, so it stays the C library's function.
#[inline]
fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    in_ns(&time)
}

#[inline]
fn in_ns(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The period of the tick, ns. The coarse clock advances at each tick.
pub fn tick_ns() -> u64 {
    let period = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    period.tv_sec as u64 * 1_000_000_000 + period.tv_nsec as u64
}

/// Whether the kernel's timers expire between ticks. If they do not, the monotonic clock is as
/// coarse as the tick.
pub fn has_fine_timers() -> bool {
    let step = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
    step.tv_sec == 0 && step.tv_nsec <= 1
}

/// The CPU time that all threads of a process have used, ns.
///
/// # Errors
/// If there is no such process.
#[inline]
pub fn process_cpu_ns(tgid: u32) -> io::Result<u64> {
    // The kernel's number of the exact clock of a process (`CPUCLOCK_SCHED`), which has room for its
    // processes.
    if tgid == 0 || tgid > PROCESSES_MAX {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let clock = (!(tgid as libc::clockid_t) << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    checked(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(in_ns(&time))
}

#[inline]
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Woke {
    /// The sleep lasted until the requested time, or longer.
    OnTime,
    /// A signal ended the sleep early.
    Interrupted,
}

/// Sleeps until a time of the monotonic clock, ns, or until a signal comes.
#[inline]
pub fn sleep_once_until(ns: u64) -> Woke {
    let time = timespec(ns);
    // SAFETY: the pointer is to a timespec of our own; with an absolute time nothing is written back.
    let result = unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
    if result == libc::EINTR { Woke::Interrupted } else { Woke::OnTime }
}

/// Sleeps until a time of the monotonic clock, ns. A sleep that a signal ends early is continued.
#[inline]
pub fn sleep_until(ns: u64) {
    while sleep_once_until(ns) == Woke::Interrupted {}
}

/// A timer that expires at a time of the monotonic clock and every period after it, both ns.
///
/// # Errors
/// If the process can have no further descriptor.
pub fn timer(first_ns: u64, period_ns: u64) -> io::Result<OwnedFd> {
    let time = |ns: u64| {
        let time = timespec(ns);
        Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec }
    };
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let setting = Itimerspec { it_interval: time(period_ns), it_value: time(first_ns) };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &setting)?;
    Ok(timer)
}

/// Waits for and reads a number of 64 bits, as timers and real-time clocks give. The call itself is measured,
/// so it stays the C library's function.
///
/// # Errors
/// If the descriptor gives no such number.
#[inline]
pub fn read_u64(from: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = 0u64;
    loop {
        // SAFETY: the pointer and length are of a number of our own.
        let read = unsafe { libc::read(from.as_raw_fd(), (&raw mut value).cast(), size_of::<u64>()) };
        if read == size_of::<u64>() as isize {
            return Ok(value);
        }
        let error = io::Error::last_os_error();
        if read >= 0 || error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Makes the calling thread's timers expire within a nanosecond; timers of threads in real-time
/// classes do so anyway.
pub fn set_no_timer_slack() {
    // The kernel refuses no such number.
    _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// The calling thread's timer slack, ns: by how much the kernel may let its timers expire late. It is 0 in a
/// real-time class.
///
/// # Errors
/// If the kernel has no timer slack.
pub fn timer_slack_ns() -> io::Result<u64> {
    // The C function's return value has 32 bits, and the slack may have more.
    // SAFETY: this request takes no pointer.
    let slack_ns = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack_ns).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn clocks_advance_and_agree_with_the_standard_library() {
        let (before, used) = (monotonic_ns(), thread_cpu_ns());
        while thread_cpu_ns() == used {}
        assert!(monotonic_ns() > before && own_cpu_ns() > used);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        assert!(unix_ns().abs_diff(unix) < 1_000_000_000);
        assert!((1_000_000..=10_000_000).contains(&tick_ns()), "{}", tick_ns());
    }

    #[test]
    fn the_kernels_clock_is_told_by_the_namespaces_offset() {
        let text = "monotonic      100000         5\nboottime           -7         0\n";
        assert_eq!(monotonic_offset_ns(text), Some(100_000_000_000_005));
        assert_eq!(monotonic_offset_ns("7 3 0\n1 -2 500000000\n"), Some(-1_500_000_000));
        for odd in ["", "boottime 1 0\n", "monotonic\n", "monotonic 1e3 0\n", "monotonic 9999999999999 0\n"] {
            assert_eq!(monotonic_offset_ns(odd), None, "{odd:?}");
        }
        let (now_ns, kernel_ns) = (monotonic_ns(), kernel_ns());
        assert!(from_kernel_ns(kernel_ns) >= now_ns && to_kernel_ns(now_ns) <= kernel_ns);
    }

    #[test]
    fn a_process_has_a_clock_while_it_is_there() {
        let own = process_cpu_ns(std::process::id()).expect("it is there");
        assert!(own > 0 && own <= own_cpu_ns());
        assert!(process_cpu_ns(PROCESSES_MAX).is_err() && process_cpu_ns(u32::MAX).is_err());
    }

    #[test]
    fn sleeps_and_timers_end_no_earlier_than_told() {
        set_no_timer_slack();
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert_eq!(sleep_once_until(until), Woke::OnTime);
        assert!(monotonic_ns() >= until);
        let first = monotonic_ns() + 1_000_000;
        let timer = timer(first, 1_000_000).expect("a timer");
        assert!(read_u64(timer.as_fd()).expect("a count") >= 1);
        assert!(monotonic_ns() >= first);
        let nothing = std::fs::File::open("/dev/null").expect("it is there");
        assert!(read_u64(nothing.as_fd()).is_err());
    }
}
