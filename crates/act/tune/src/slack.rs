//! Timer slack: by how much the kernel may let a thread's timers expire late.
//!
//! Timer slack is the overshoot of the firm timers of Time-Sensitive Linux (section 3.1), for programs that
//! are not changed: the kernel serves timers together if their intervals from deadline to deadline plus slack
//! overlap. It covers the sleeps, polls and waits of ordinary threads. Timers of `timerfd`, `timer_settime`
//! and `setitimer` have no slack, nor have threads of real-time classes.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::Serialize;
use spry_sys::clock;
use spry_sys::settle::Setting;

use crate::error::{TuneError, of};

/// The largest overshoot, ns.
pub const OVERSHOOT_NS_MAX: u64 = 10_000_000_000;

/// How often the threads of a process are listed until no thread has another slack. A thread that is started
/// while the others are set inherits its starter's slack, which may still be the old one.
const ROUNDS: u32 = 16;

/// The slack that a process gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slack {
    /// At most this much, ns. 0 makes timers hard.
    Overshoot(u64),
    /// The value that each thread had when it was started.
    Default,
}

impl Slack {
    /// The number that the kernel takes. To the kernel 0 is the default, so a hard timer has 1 ns.
    fn number(self) -> u64 {
        match self {
            Slack::Overshoot(ns) => ns.max(1),
            Slack::Default => 0,
        }
    }
}

/// The slack of a thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ThreadSlack {
    /// The thread's number.
    pub tid: u32,
    /// The thread's name.
    pub name: String,
    /// The slack before the change, ns.
    pub before_ns: u64,
    /// The slack after the change, ns. It is 0 for a thread of a real-time class, whatever it was set to.
    pub now_ns: u64,
}

/// Sets the slack of the calling thread. Programs that it becomes, and threads that it starts, have the same.
/// Returns the slack before and after the change, ns.
///
/// # Errors
/// If the kernel refuses.
pub fn set_own(overshoot_ns: u64) -> Result<(u64, u64), TuneError> {
    let own_ns = || clock::timer_slack_ns().map_err(of("cannot read the timer slack"));
    let before_ns = own_ns()?;
    let ns = NonZeroU64::new(Slack::Overshoot(overshoot_ns).number()).expect("it is 1 at least");
    Setting::TimerSlack(ns).apply().map_err(of("cannot set the timer slack"))?;
    Ok((before_ns, own_ns()?))
}

/// The slack of each thread of a process, by thread number.
///
/// # Errors
/// If there is no such process, or the caller may not read it.
pub fn of_process(tgid: u32) -> Result<Vec<ThreadSlack>, TuneError> {
    let threads = Threads { tgid };
    let mut found = Vec::new();
    for tid in threads.list()? {
        if let Some(thread) = threads.with(tid, |file| read(file).map(|ns| (ns, ns)))? {
            found.push(thread);
        }
    }
    Ok(found)
}

/// Sets the slack of each thread of a process. Returns the threads by number. A thread that exits meanwhile
/// is left out.
///
/// # Errors
/// If there is no such process, or the caller may not change it.
pub fn set_process(tgid: u32, slack: Slack) -> Result<Vec<ThreadSlack>, TuneError> {
    let threads = Threads { tgid };
    let mut found: Vec<ThreadSlack> = Vec::new();
    for _ in 0..ROUNDS {
        let mut new = Vec::new();
        for tid in threads.list()? {
            if found.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            let change = |file: &mut File| {
                let before_ns = read(file)?;
                file.write_all(slack.number().to_string().as_bytes())?;
                Ok((before_ns, read(file)?))
            };
            new.extend(threads.with(tid, change)?);
        }
        if new.is_empty() {
            break;
        }
        found.append(&mut new);
    }
    found.sort_by_key(|thread| thread.tid);
    Ok(found)
}

/// The threads of a process in `/proc`.
struct Threads {
    tgid: u32,
}

impl Threads {
    fn directory(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/task", self.tgid))
    }

    fn list(&self) -> Result<Vec<u32>, TuneError> {
        let entries = fs::read_dir(self.directory()).map_err(|error| self.failed(error))?;
        let mut tids: Vec<u32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        // The kernel lists no thread of a process that exits while it is listed.
        if tids.is_empty() {
            return Err(TuneError::NoProcess { tgid: self.tgid });
        }
        tids.sort_unstable();
        Ok(tids)
    }

    /// Reads or changes the slack of one thread; nothing if the thread has exited. The file is opened before
    /// the thread is looked for in its process, so a later thread of the same number is never changed.
    fn with(
        &self,
        tid: u32,
        change: impl FnOnce(&mut File) -> io::Result<(u64, u64)>,
    ) -> Result<Option<ThreadSlack>, TuneError> {
        let opened = File::options().read(true).write(true).open(format!("/proc/{tid}/timerslack_ns"));
        let name = fs::read_to_string(self.directory().join(tid.to_string()).join("comm"));
        let done = opened.and_then(|mut file| Ok((name?, change(&mut file)?)));
        match done {
            Ok((name, (before_ns, now_ns))) => {
                Ok(Some(ThreadSlack { tid, name: name.trim_end_matches('\n').to_owned(), before_ns, now_ns }))
            }
            Err(error) if has_exited(&error) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: io::Error) -> TuneError {
        let tgid = self.tgid;
        if has_exited(&error) { TuneError::NoProcess { tgid } } else { TuneError::Slack { tgid, error } }
    }
}

fn has_exited(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || spry_sys::process::is_gone(error)
}

fn read(file: &mut File) -> io::Result<u64> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    number(&text)
}

fn number(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(|_| io::Error::new(ErrorKind::InvalidData, "the timer slack is no number"))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_hard_timer_is_not_the_kernel_s_default() {
        assert_eq!(Slack::Overshoot(0).number(), 1);
        assert_eq!(Slack::Overshoot(7).number(), 7);
        assert_eq!(Slack::Default.number(), 0);
    }

    #[test]
    fn a_thread_s_slack_is_what_it_was_set_to() {
        // In a thread of its own: other tests keep theirs.
        let (first, second) = thread::spawn(|| (set_own(70_000), set_own(0))).join().expect("it ends");
        assert_eq!(first.expect("it may be set").1, 70_000);
        assert_eq!(second.expect("it may be set"), (70_000, 1));
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = of_process(u32::MAX / 2).expect_err("no process has this number").to_string();
        assert!(error.contains("there is no process 2147483647"), "{error}");
        assert!(set_process(u32::MAX / 2, Slack::Default).is_err());
    }
}
