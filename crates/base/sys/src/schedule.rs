//! The class and the nice value of threads.

use std::io;

use rustix::process::{getpriority_process, getrlimit, setpriority_process};

use crate::{Resource, checked, number_or_own};

/// A class of the kernel's, with the priority of a real-time one, 1 to 99.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The ordinary class.
    Other,
    /// The batch class, in which a woken task preempts no other task.
    Batch,
    /// The idle class, which gets hardly any CPU time while other tasks need it.
    Idle,
    /// The FIFO class: real-time, until the task sleeps.
    Fifo(u8),
    /// The round-robin class: real-time, in turns with other tasks of the same priority.
    RoundRobin(u8),
}

/// The class of the threads and processes that a thread starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// Children have the thread's class.
    Same,
    /// Children are of the ordinary class, if the thread's class is a real-time class.
    Ordinary,
}

/// Puts a thread into a class; 0 is the calling thread. The thread keeps its nice value and its slice, which
/// [`Attributes::give`](crate::attributes::Attributes::give) would set.
///
/// # Errors
/// If there is no such thread, or if it may not be in that class.
pub fn set_policy(tid: u32, policy: Policy, children: Children) -> io::Result<()> {
    let (number, priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Batch => (libc::SCHED_BATCH, 0),
        Policy::Idle => (libc::SCHED_IDLE, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Policy::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    let flag = match children {
        Children::Same => 0,
        Children::Ordinary => libc::SCHED_RESET_ON_FORK,
    };
    let param = libc::sched_param { sched_priority: priority.into() };
    // SAFETY: the pointer is to a parameter of our own.
    checked(unsafe { libc::sched_setscheduler(tid as libc::pid_t, number | flag, &raw const param) })
        .map(|_| ())
}

/// Puts the calling thread, and the tasks that it starts, into the FIFO class at a priority of 1 to 99.
///
/// # Errors
/// If the thread may not be in that class.
pub fn set_fifo(priority: u8) -> io::Result<()> {
    set_policy(0, Policy::Fifo(priority), Children::Same)
}

/// The number of a thread's class (`SCHED_OTHER` and so on), without flags; 0 is the calling thread.
///
/// # Errors
/// If there is no such thread.
pub fn policy(tid: u32) -> io::Result<i32> {
    // SAFETY: the call takes a number.
    let policy = checked(unsafe { libc::sched_getscheduler(tid as libc::pid_t) })?;
    Ok(policy & !libc::SCHED_RESET_ON_FORK)
}

/// How long a thread of the round-robin class runs before the next thread of its priority runs, ns; 0 is
/// the calling thread. In other classes the number has other meanings.
///
/// # Errors
/// If there is no such thread.
pub fn round_robin_ns(tid: u32) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of our own.
    checked(unsafe { libc::sched_rr_get_interval(tid as libc::pid_t, &raw mut time) })?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Takes the calling thread out of the real-time classes.
pub fn leave_real_time() {
    if policy(0).is_ok_and(|policy| policy == libc::SCHED_FIFO || policy == libc::SCHED_RR) {
        _ = set_policy(0, Policy::Other, Children::Same);
    }
}

/// Gives a thread a nice value of -20 to 19; 0 is the calling thread.
///
/// # Errors
/// If there is no such thread, or if it may not have this value.
pub fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    Ok(setpriority_process(number_or_own(tid)?, nice)?)
}

/// The nice value of a thread, -20 to 19, which the kernel keeps in every class; 0 is the calling thread.
///
/// # Errors
/// If there is no such thread.
pub fn nice(tid: u32) -> io::Result<i32> {
    Ok(getpriority_process(number_or_own(tid)?)?)
}

/// The greatest real-time priority that this process may ask for without privilege, 0 to 99.
pub fn real_time_limit() -> u64 {
    getrlimit(Resource::Rtprio).current.map_or(99, |limit| limit.min(99))
}

/// How many voluntary and involuntary switches the calling thread has had.
pub fn switches() -> i64 {
    // SAFETY: an all-zero record is a valid place for the answer.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a record of our own.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw + usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_class_that_it_is_given() {
        std::thread::spawn(|| {
            for (given, number) in [(Policy::Batch, libc::SCHED_BATCH), (Policy::Other, libc::SCHED_OTHER)] {
                set_policy(0, given, Children::Same).expect("any thread may");
                assert_eq!(policy(0).expect("it is there"), number);
            }
            leave_real_time();
            assert_eq!(policy(0).expect("it is there"), libc::SCHED_OTHER);
            if set_policy(0, Policy::RoundRobin(1), Children::Ordinary).is_ok() {
                assert_eq!(policy(0).expect("it is there"), libc::SCHED_RR);
                assert!(round_robin_ns(0).expect("it is there") > 0);
                leave_real_time();
                assert_eq!(policy(0).expect("it is there"), libc::SCHED_OTHER);
            }
            set_nice(0, 3).expect("any thread may be nicer");
            assert_eq!(nice(0).expect("it is there"), 3);
            set_policy(0, Policy::Idle, Children::Same).expect("any thread may");
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn a_thread_that_sleeps_gives_up_the_cpu() {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(switches() > before);
    }

    #[test]
    fn impossible_priorities_and_tasks_are_refused() {
        assert!(set_fifo(100).is_err() && set_fifo(0).is_err());
        assert!(policy(i32::MAX as u32).is_err() && round_robin_ns(i32::MAX as u32).is_err());
        assert!(nice(i32::MAX as u32).is_err() && set_nice(i32::MAX as u32, 0).is_err());
        assert!(real_time_limit() <= 99);
    }
}
