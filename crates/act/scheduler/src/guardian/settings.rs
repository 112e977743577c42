//! The scheduling settings of a thread that Spry may change: reading, writing and comparing them.

use std::fs;
use std::io::{self, Read};
use std::thread;

use libc::sched_attr;
use spry_kernel::PF_KTHREAD;
use spry_sys::attributes::Attributes;
use spry_sys::slack::Slack;
use spry_sys::{process, schedule};

/// The settings of a thread: the values of `sched_setattr`, and the timer slack. They are plain numbers,
/// since the journal stores them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The policy: `SCHED_OTHER` or another policy.
    pub policy: u32,
    /// 1: the thread's children do not inherit the policy, a nice value below 0, or the slice.
    pub reset_on_fork: u32,
    /// The nice value, -20 to 19. The kernel keeps it even while the policy does not use it.
    pub nice: i32,
    /// The priority under a real-time policy, 1 to 99; otherwise 0.
    pub priority: u32,
    /// The slice that the thread has requested from the fair scheduler, ns; 0: the kernel's own slice.
    /// Kernels before 6.12 have only 0.
    pub slice_ns: u64,
    /// The timer slack: the most by which the thread's timers may be late, ns. It is 0 while the policy is a
    /// real-time policy.
    pub slack_ns: u64,
}

/// Identifies a thread even after it has exited: a later thread may have its number, but not its
/// number and start.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskId {
    /// The number of the thread.
    pub tid: u32,
    /// The number of the thread's process.
    pub tgid: u32,
    /// The thread's start, in ticks of `/proc` (10 ms) since boot.
    pub start: u64,
}

/// Fields of the file `stat` of a thread in `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// The thread's state: R, S, D and so on.
    pub state: u8,
    /// Whether the thread is a kernel thread.
    pub is_kernel: bool,
    /// The thread's session.
    pub session: u32,
    /// The thread's start, in ticks of `/proc` (10 ms) since boot.
    pub start: u64,
}

const RESET_ON_FORK: u64 = 1;

/// The kernel's number of the policy `SCHED_OTHER`.
pub const OTHER: u32 = libc::SCHED_OTHER as u32;
/// The kernel's number of the policy `SCHED_IDLE`.
pub const IDLE: u32 = libc::SCHED_IDLE as u32;
/// The kernel's number of the policy `SCHED_FIFO`.
pub const FIFO: u32 = libc::SCHED_FIFO as u32;
/// The kernel's number of the policy `SCHED_RR`.
pub const ROUND_ROBIN: u32 = libc::SCHED_RR as u32;
/// The kernel's number of the policy `SCHED_DEADLINE`.
pub const DEADLINE: u32 = libc::SCHED_DEADLINE as u32;

/// The timer slack of a thread that has not requested another slack, ns.
pub const USUAL_SLACK_NS: u64 = 50_000;
/// The timer slack of threads in use, ns. The kernel's usual slack is half of the time by which a frame is
/// late at best. The odd number identifies threads that have inherited it.
pub const IN_USE_SLACK_NS: u64 = 1_013;
/// The timer slack by class of users' other threads, ns. The odd number identifies threads that
/// have inherited it.
pub const BACKGROUND_SLACK_NS: u64 = 4_000_013;

impl Settings {
    /// The settings of a thread. `base_slice_ns` is the slice of threads that have requested none. The slack
    /// is 0 if Spry may not read it.
    ///
    /// # Errors
    /// If the thread has exited.
    pub fn of(id: TaskId, base_slice_ns: u64) -> io::Result<Settings> {
        let settings = Settings::scheduling_of(id.tid, base_slice_ns)?;
        Ok(Settings { slack_ns: slack_ns(id).unwrap_or(0), ..settings })
    }

    /// A thread's settings without the slack; 0 is the calling thread. Takes two system calls.
    ///
    /// # Errors
    /// If the thread has exited.
    pub fn scheduling_of(tid: u32, base_slice_ns: u64) -> io::Result<Settings> {
        let attributes = Attributes::of(tid)?;
        let attr = attributes.numbers();
        let slice_ns = if attr.sched_policy == OTHER && attr.sched_runtime != base_slice_ns {
            attr.sched_runtime
        } else {
            0
        };
        Ok(Settings {
            policy: attr.sched_policy,
            reset_on_fork: u32::from(attr.sched_flags & RESET_ON_FORK != 0),
            nice: schedule::nice(tid)?,
            priority: attr.sched_priority,
            slice_ns,
            slack_ns: 0,
        })
    }

    /// Gives a thread these settings, except the slack; 0 is the calling thread.
    ///
    /// # Errors
    /// If the thread has exited, or the kernel forbids the change.
    pub fn schedule(&self, tid: u32) -> io::Result<()> {
        let attributes = Attributes::of_numbers(sched_attr {
            size: 0,
            sched_policy: self.policy,
            sched_flags: if self.reset_on_fork != 0 { RESET_ON_FORK } else { 0 },
            sched_nice: self.nice,
            sched_priority: self.priority,
            sched_runtime: if self.policy == OTHER { self.slice_ns } else { 0 },
            sched_deadline: 0,
            sched_period: 0,
        });
        attributes.give(tid)
    }

    /// Whether the policy is a real-time policy. The kernel gives such threads slack 0.
    #[must_use]
    pub const fn is_real_time(&self) -> bool {
        matches!(self.policy, FIFO | ROUND_ROBIN | DEADLINE)
    }

    /// These settings with slack 0, to compare all other settings.
    #[must_use]
    pub const fn without_slack(self) -> Settings {
        Settings { slack_ns: 0, ..self }
    }
}

/// The fair scheduler's own slice, ns: the slice of a thread that has requested none; 0 if the kernel does
/// not report it. A new thread reads it, since the calling thread may have another slice.
pub fn base_slice_ns() -> u64 {
    let ask = || {
        let own = Settings::scheduling_of(0, 0).ok()?;
        Settings { policy: OTHER, priority: 0, slice_ns: 0, ..own }.schedule(0).ok()?;
        Attributes::of(0).ok().map(|attributes| attributes.numbers().sched_runtime)
    };
    let asked = thread::Builder::new().name("slice".to_owned()).spawn(ask).map(thread::JoinHandle::join);
    asked.ok().and_then(Result::ok).flatten().unwrap_or(0)
}

/// A thread's timer slack, ns.
///
/// # Errors
/// If the thread has exited, or the kernel does not permit reading it.
pub fn slack_ns(id: TaskId) -> io::Result<u64> {
    Slack::open(id.tid)?.ns()
}

/// Sets a thread's timer slack, ns.
///
/// # Errors
/// If the thread has exited, or the kernel forbids it.
pub fn set_slack_ns(id: TaskId, slack_ns: u64) -> io::Result<()> {
    Slack::open(id.tid)?.set_ns(slack_ns)
}

/// Reads the state of a thread from `/proc`.
///
/// # Errors
/// If the thread has exited.
pub fn stat_of(tgid: u32, tid: u32) -> io::Result<Stat> {
    let mut text = [0; 1024];
    let length = fs::File::open(format!("/proc/{tgid}/task/{tid}/stat"))?.read(&mut text)?;
    parse_stat(&text[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    let mut fields = process::stat_fields(text)?;
    let state = *fields.next()?.as_bytes().first()?;
    let session = fields.nth(2)?.parse().unwrap_or(0);
    let flags: u64 = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(12)?.parse().ok()?;
    Some(Stat { state, is_kernel: flags & PF_KTHREAD != 0, session, start })
}

impl TaskId {
    /// The identity of the thread that has this number now.
    ///
    /// # Errors
    /// If there is no such thread.
    pub fn now(tgid: u32, tid: u32) -> io::Result<TaskId> {
        Ok(TaskId { tid, tgid, start: stat_of(tgid, tid)?.start })
    }

    /// Whether this thread still exists, and its number belongs to no other thread.
    #[must_use]
    pub fn is_alive(self) -> bool {
        stat_of(self.tgid, self.tid).is_ok_and(|stat| stat.start == self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = b"77 (a) b) (c) S 1 70 69 0 -1 2097408 0 0 0 0 0 0 0 0 20 0 1 0 123456 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat, Stat { state: b'S', is_kernel: true, session: 69, start: 123_456 });
        assert_eq!(parse_stat(b"77 (a"), None);
        assert_eq!(parse_stat(b"77 (a) S 1 2"), None);
    }

    #[test]
    fn a_thread_reads_its_own_settings() {
        let settings = Settings::scheduling_of(0, base_slice_ns()).unwrap();
        assert_eq!(settings.slice_ns, 0);
        let own = rustix::process::getpriority_process(None).unwrap();
        assert_eq!((settings.policy, settings.nice), (OTHER, own));
    }

    #[test]
    fn a_number_given_anew_is_another_thread() {
        let tgid = std::process::id();
        let id = TaskId::now(tgid, tgid).unwrap();
        assert!(id.is_alive());
        assert!(!TaskId { start: id.start + 1, ..id }.is_alive());
    }
}
