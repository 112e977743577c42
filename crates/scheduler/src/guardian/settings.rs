//! How a thread is scheduled, as far as Spry ever changes it: read, written, and told apart.

use std::fs;
use std::io::{self, Read, Write};
use std::mem::{MaybeUninit, size_of};
use std::thread;

use libc::sched_attr;
use spry_kernel::PF_KTHREAD;

/// A thread's settings: what `sched_setattr` sets, and its timer slack. Plain numbers, for they lie in the journal.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// `SCHED_OTHER` and its kin.
    pub policy: u32,
    /// 1: children do not inherit policy, a nice value below 0, and slice.
    pub reset_on_fork: u32,
    /// -20 to 19; kept by the kernel also while the policy has no use for it.
    pub nice: i32,
    /// Of a real-time policy, 1 to 99; else 0.
    pub priority: u32,
    /// What it asks the fair scheduler for at a time, ns; 0: the kernel's own. Kernels before 6.12 know only 0.
    pub slice_ns: u64,
    /// By how much its timers may be late, ns. The kernel holds 0 while the policy is a real-time one.
    pub slack_ns: u64,
}

/// A thread's name for good: numbers are given anew, but not with the same start.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskId {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// When it began, in ticks of `/proc` (10 ms) since boot.
    pub start: u64,
}

/// What `/proc` says of a thread in its line of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// R, S, D and so on.
    pub state: u8,
    /// Whether it is a thread of the kernel.
    pub is_kernel: bool,
    /// Its session.
    pub session: u32,
    /// When it began, in ticks of `/proc` since boot.
    pub start: u64,
}

const RESET_ON_FORK: u64 = 1;

/// `SCHED_OTHER`.
pub const OTHER: u32 = libc::SCHED_OTHER as u32;
/// `SCHED_IDLE`.
pub const IDLE: u32 = libc::SCHED_IDLE as u32;
/// `SCHED_RR`.
pub const ROUND_ROBIN: u32 = libc::SCHED_RR as u32;

impl Settings {
    /// A thread's settings; `base_slice_ns` is the slice of those that have asked for none. Where the slack may not be
    /// read, it is 0.
    ///
    /// # Errors
    /// Where the thread is gone.
    pub fn of(id: TaskId, base_slice_ns: u64) -> io::Result<Settings> {
        let settings = Settings::scheduling_of(id.tid, base_slice_ns)?;
        Ok(Settings { slack_ns: slack_ns(id).unwrap_or(0), ..settings })
    }

    /// The same without the slack, by two system calls; 0 is the calling thread.
    ///
    /// # Errors
    /// Where the thread is gone.
    pub fn scheduling_of(tid: u32, base_slice_ns: u64) -> io::Result<Settings> {
        let attr = attr_of(tid)?;
        let slice_ns = if attr.sched_policy == OTHER && attr.sched_runtime != base_slice_ns {
            attr.sched_runtime
        } else {
            0
        };
        Ok(Settings {
            policy: attr.sched_policy,
            reset_on_fork: u32::from(attr.sched_flags & RESET_ON_FORK != 0),
            nice: nice_of(tid)?,
            priority: attr.sched_priority,
            slice_ns,
            slack_ns: 0,
        })
    }

    /// Gives a thread everything but the slack; 0 is the calling thread.
    ///
    /// # Errors
    /// Where the thread is gone or the kernel forbids it.
    pub fn schedule(&self, tid: u32) -> io::Result<()> {
        let attr = sched_attr {
            size: size_of::<sched_attr>() as u32,
            sched_policy: self.policy,
            sched_flags: if self.reset_on_fork != 0 { RESET_ON_FORK } else { 0 },
            sched_nice: self.nice,
            sched_priority: self.priority,
            sched_runtime: if self.policy == OTHER { self.slice_ns } else { 0 },
            sched_deadline: 0,
            sched_period: 0,
        };
        // SAFETY: the structure is as large as it says, and the kernel only reads it.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The settings without the slack.
    #[must_use]
    pub const fn without_slack(self) -> Settings {
        Settings { slack_ns: 0, ..self }
    }
}

/// The fair scheduler's own slice, ns, as a thread has it that asks for none; 0 where the kernel does not tell. Asked by a
/// thread made for it, for the caller may have another.
pub fn base_slice_ns() -> u64 {
    let ask = || {
        let own = Settings::scheduling_of(0, 0).ok()?;
        Settings { policy: OTHER, priority: 0, slice_ns: 0, ..own }.schedule(0).ok()?;
        attr_of(0).ok().map(|attr| attr.sched_runtime)
    };
    let asked = thread::Builder::new().name("slice".to_owned()).spawn(ask).map(thread::JoinHandle::join);
    asked.ok().and_then(Result::ok).flatten().unwrap_or(0)
}

fn attr_of(tid: u32) -> io::Result<sched_attr> {
    let mut attr = MaybeUninit::<sched_attr>::zeroed();
    let size = size_of::<sched_attr>();
    // SAFETY: the kernel writes at most as many bytes as it is told that there are.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, attr.as_mut_ptr(), size, 0) };
    // SAFETY: numbers all of which may be zero, where the kernel wrote nothing.
    if result == 0 { Ok(unsafe { attr.assume_init() }) } else { Err(io::Error::last_os_error()) }
}

/// By the system call itself, whose answer is 20 less the nice value: there is no -1 that is no error.
fn nice_of(tid: u32) -> io::Result<i32> {
    // SAFETY: the call takes only numbers.
    let result = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(20 - result as i32) }
}

fn slack_file(id: TaskId) -> String {
    format!("/proc/{}/timerslack_ns", id.tid)
}

/// A thread's timer slack, ns.
///
/// # Errors
/// Where the thread is gone, or the kernel does not let us see it.
pub fn slack_ns(id: TaskId) -> io::Result<u64> {
    let mut text = [0; 32];
    let length = fs::File::open(slack_file(id))?.read(&mut text)?;
    let number = std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sets a thread's timer slack, ns.
///
/// # Errors
/// Where the thread is gone, or the kernel forbids it.
pub fn set_slack_ns(id: TaskId, slack_ns: u64) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(slack_file(id))?.write_all(slack_ns.to_string().as_bytes())
}

/// What `/proc` says of a thread now.
///
/// # Errors
/// Where it is gone.
pub fn stat_of(tgid: u32, tid: u32) -> io::Result<Stat> {
    let mut text = [0; 1024];
    let length = fs::File::open(format!("/proc/{tgid}/task/{tid}/stat"))?.read(&mut text)?;
    parse_stat(&text[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse_stat(text: &[u8]) -> Option<Stat> {
    // The name may hold anything, also spaces and brackets; it ends with the last one.
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let text = std::str::from_utf8(text.get(name_end + 1..)?).ok()?;
    // From the state on, which `proc(5)` counts as field 3.
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let session = fields.nth(2)?.parse().unwrap_or(0);
    let flags: u64 = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(12)?.parse().ok()?;
    Some(Stat { state, is_kernel: flags & PF_KTHREAD != 0, session, start })
}

impl TaskId {
    /// The thread of this number now.
    ///
    /// # Errors
    /// Where there is none.
    pub fn now(tgid: u32, tid: u32) -> io::Result<TaskId> {
        Ok(TaskId { tid, tgid, start: stat_of(tgid, tid)?.start })
    }

    /// Whether the number is still this thread's.
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
        // SAFETY: the call takes only numbers.
        assert_eq!(settings.nice, unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
    }

    #[test]
    fn a_number_given_anew_is_another_thread() {
        let tgid = std::process::id();
        let id = TaskId::now(tgid, tgid).unwrap();
        assert!(id.is_alive());
        assert!(!TaskId { start: id.start + 1, ..id }.is_alive());
    }
}
