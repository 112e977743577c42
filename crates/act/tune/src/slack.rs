//! Timer slack: by how much the kernel may let a thread's timers expire late.
//!
//! Timer slack is the overshoot of the firm timers of Time-Sensitive Linux (section 3.1), for programs that
//! are not changed: the kernel serves timers together if their intervals from deadline to deadline plus slack
//! overlap. It covers the sleeps, polls and waits of ordinary threads. Timers of `timerfd`, `timer_settime`
//! and `setitimer` have no slack, nor have threads of real-time classes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use spry_sys::run_time::RunTime;
use spry_sys::settle::Setting;
use spry_sys::slack::{self as of_threads, has_exited};
use spry_sys::{clock, process};

use crate::error::{TuneError, of};

/// The largest overshoot, ns.
pub const OVERSHOOT_NS_MAX: u64 = 10_000_000_000;

/// The time after which walks over a process that starts threads meanwhile end without success. A thread
/// inherits its starter's slack, which may still be the old one.
const LIMIT: Duration = Duration::from_secs(2);

/// The least number of walks before they end without success.
const WALKS_MIN: u32 = 32;

/// The run time after which a thread has finished a start of another thread that was under way, ns.
const START_NS: u64 = 1_000_000;

/// The pause between two walks that wait for threads with such a start under way.
const PAUSE: Duration = Duration::from_millis(1);

/// The slack that a process gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slack {
    /// Timers may expire late by at most this time, ns. With 0 they are hard timers.
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

/// The slack of each thread of a process, by thread number. With a slack, each thread is given it first. A
/// thread that exits meanwhile is left out.
///
/// # Errors
/// If there is no such process, the caller may not read or change it, or the process starts threads faster
/// than they can be changed.
pub fn of_process(tgid: u32, slack: Option<Slack>) -> Result<Vec<ThreadSlack>, TuneError> {
    let mut threads = Threads { tgid, slack, starting: BTreeMap::new() };
    let mut found = BTreeMap::new();
    let first = threads.walk(&mut found)?;
    if slack.is_some() {
        walk_until_calm(tgid, LIMIT, first, || threads.walk(&mut found))?;
    }
    Ok(found.into_values().collect())
}

/// Walks until the threads of a process have their slack: a walk has looked at each of them and has changed
/// none, or walks in a row have changed none and have looked at enough fresh threads. The first walk changes
/// every thread, also of a process that starts none, so it may take longer than the limit.
///
/// The kernel copies a thread's slack when it begins to start another thread, and lists that thread later. So
/// a thread that was changed in between passes the old slack on. A walk without changes does not suffice
/// while a changed thread may be at that. If such a thread gets no CPU until the limit, the walks end.
fn walk_until_calm(
    tgid: u32,
    limit: Duration,
    first: Walk,
    mut walk: impl FnMut() -> Result<Walk, TuneError>,
) -> Result<(), TuneError> {
    let began = Instant::now();
    let mut last = first;
    // To the first walk all threads are fresh, which says nothing on what they start.
    let mut calm = Calm::default();
    for walks in 0.. {
        let all_have_it = last.changed == 0 && last.unseen == 0;
        let is_over = walks >= WALKS_MIN && began.elapsed() >= limit;
        if all_have_it && (last.starting == 0 || is_over) {
            return Ok(());
        }
        if walks > 0 && calm.follows(last).is_calm() {
            return Ok(());
        }
        if is_over {
            break;
        }
        if all_have_it {
            thread::sleep(PAUSE);
        }
        last = walk()?;
    }
    Err(TuneError::RestlessThreads { tgid })
}

/// The walks in a row that have changed no thread, of a process of which some threads are never looked at.
///
/// Threads that exit so early may form several lines, in each of which a thread starts the next one. A
/// thread with the new slack passes it on to all that follow it in its line. So the walks go on until they
/// have probably looked at a thread of each line.
#[derive(Default)]
struct Calm {
    /// The fresh threads that were looked at.
    fresh: usize,
    /// The largest number of fresh and unseen threads of a walk, which is the number of lines at most.
    lines: usize,
}

impl Calm {
    fn follows(&mut self, walk: Walk) -> &Calm {
        *self = match walk.changed {
            0 => Calm { fresh: self.fresh + walk.fresh, lines: self.lines.max(walk.fresh + walk.unseen) },
            _ => Calm::default(),
        };
        self
    }

    /// Whether all lines were probably met. If each fresh thread is of one of n lines by chance, n (12 + ln
    /// n) threads miss a line six times in a million.
    fn is_calm(&self) -> bool {
        let lines = self.lines as f64;
        self.lines > 0 && self.fresh as f64 >= lines * (12.0 + lines.ln())
    }
}

/// The threads of a process in `/proc`, and the slack that they are to have.
struct Threads {
    tgid: u32,
    slack: Option<Slack>,
    /// The changed threads that may have been starting another thread when they were changed, with their run
    /// time then, ns.
    starting: BTreeMap<u32, u64>,
}

/// The numbers of threads of a walk.
#[derive(Clone, Copy)]
struct Walk {
    /// The threads with a changed slack.
    changed: usize,
    /// The threads that exited before they could be looked at, and those that the list left out.
    unseen: usize,
    /// The threads that were looked at, and not in the walk before.
    fresh: usize,
    /// The changed threads that may still be starting another thread with the old slack.
    starting: usize,
}

impl Threads {
    fn directory(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/task", self.tgid))
    }

    /// The numbers of the threads in order, and the number of threads that the list lacks. The kernel ends a
    /// list early if the thread that it has come to exits.
    fn list(&self) -> Result<(Vec<u32>, usize), TuneError> {
        let entries = fs::read_dir(self.directory()).map_err(|error| self.failed(error))?;
        let mut tids: Vec<u32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        // The kernel lists no thread of a process that exits while it is listed.
        if tids.is_empty() {
            return Err(TuneError::NoProcess { tgid: self.tgid });
        }
        tids.sort_unstable();
        let count = process::thread_count(self.tgid).map_err(|error| self.failed(error))?;
        let unlisted = count.saturating_sub(tids.len());
        Ok((tids, unlisted))
    }

    /// Looks at each thread once. `found` has the threads of this walk afterwards; a thread that an earlier
    /// walk found keeps the slack that it had before.
    fn walk(&mut self, found: &mut BTreeMap<u32, ThreadSlack>) -> Result<Walk, TuneError> {
        let (tids, unlisted) = self.list()?;
        found.retain(|tid, _| tids.binary_search(tid).is_ok());
        let mut walk = Walk { changed: 0, unseen: unlisted, fresh: 0, starting: 0 };
        for tid in tids {
            match self.look(tid) {
                Ok(thread) => {
                    let is_changed = thread.before_ns != thread.now_ns;
                    walk.changed += usize::from(is_changed);
                    if is_changed {
                        self.starting.insert(tid, self.ran_ns(tid));
                    }
                    let earlier = found.get(&tid);
                    walk.fresh += usize::from(earlier.is_none());
                    let before_ns = earlier.map_or(thread.before_ns, |earlier| earlier.before_ns);
                    found.insert(tid, ThreadSlack { before_ns, ..thread });
                }
                Err(error) if has_exited(&error) => {
                    walk.unseen += 1;
                    found.remove(&tid);
                    self.starting.remove(&tid);
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
        let starting = mem::take(&mut self.starting);
        self.starting = starting.into_iter().filter(|&(tid, ran_ns)| self.may_start(tid, ran_ns)).collect();
        walk.starting = self.starting.len();
        Ok(walk)
    }

    /// The run time of a thread, ns; 0 if it has exited.
    fn ran_ns(&self, tid: u32) -> u64 {
        RunTime::of(self.tgid, tid).ok().and_then(|time| time.ran_ns()).unwrap_or(0)
    }

    /// Whether a thread may still be starting another thread, as it may have been when it had run for
    /// `ran_ns`. A thread does not sleep interruptibly while it starts another one.
    fn may_start(&self, tid: u32, ran_ns: u64) -> bool {
        let line = fs::read(self.directory().join(tid.to_string()).join("stat")).unwrap_or_default();
        matches!(process::state(&line), Some(b'R' | b'D')) && self.ran_ns(tid) < ran_ns + START_NS
    }

    /// Reads and changes the slack of one thread. The file is opened before the thread is looked for in its
    /// process, so a later thread of the same number is never changed.
    fn look(&self, tid: u32) -> io::Result<ThreadSlack> {
        let file = of_threads::Slack::open(tid)?;
        let name = fs::read_to_string(self.directory().join(tid.to_string()).join("comm"))?;
        let before_ns = file.ns()?;
        let is_there = self.slack.is_some_and(|slack| slack.number() == before_ns);
        let now_ns = match self.slack {
            Some(slack) if !is_there => {
                file.set_ns(slack.number())?;
                file.ns()?
            }
            Some(_) | None => before_ns,
        };
        Ok(ThreadSlack { tid, name: name.trim_end_matches('\n').to_owned(), before_ns, now_ns })
    }

    fn failed(&self, error: io::Error) -> TuneError {
        let tgid = self.tgid;
        if has_exited(&error) { TuneError::NoProcess { tgid } } else { TuneError::Slack { tgid, error } }
    }
}

#[cfg(test)]
mod tests {
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

    fn walk(changed: usize, unseen: usize, fresh: usize) -> Walk {
        Walk { changed, unseen, fresh, starting: 0 }
    }

    /// The number of walks after the first one. A walk is of changed, unseen and fresh threads.
    fn walks(limit: Duration, walks: &[(usize, usize, usize)]) -> Result<usize, TuneError> {
        let mut walks = walks.iter().map(|&(changed, unseen, fresh)| walk(changed, unseen, fresh));
        let first = walks.next().expect("a first walk");
        let mut count = 0;
        walk_until_calm(7, limit, first, || {
            count += 1;
            Ok(walks.next().expect("it has ended by now"))
        })?;
        Ok(count)
    }

    #[test]
    fn walks_end_when_all_threads_have_been_seen_with_the_slack() {
        let done = |of: &[(usize, usize, usize)]| walks(LIMIT, of).expect("it is done");
        assert_eq!(done(&[(0, 0, 3)]), 0);
        assert_eq!(done(&[(4, 0, 4), (0, 0, 0)]), 1);
        // A thread that exited unseen may have started another one.
        assert_eq!(done(&[(4, 1, 4), (0, 1, 0), (1, 0, 1), (0, 0, 0)]), 3);
    }

    #[test]
    fn fresh_threads_of_each_line_are_awaited() {
        let done = |of: &[(usize, usize, usize)]| walks(LIMIT, of).expect("it is done");
        let calm = |walk, count| [vec![(3, 0, 3)], vec![walk; count]].concat();
        // Two lines: 2 (12 + 0.7).
        let unlucky = [&calm((0, 1, 0), 500)[..], &[(0, 1, 1); 26]].concat();
        assert_eq!(done(&unlucky), 500 + 26);
        // Ten lines, of which one is fresh in each walk: 10 (12 + 2.3).
        assert_eq!(done(&calm((0, 9, 1), 144)), 144);
        // A changed thread begins anew.
        assert_eq!(done(&[calm((0, 9, 1), 140), calm((0, 9, 1), 144)].concat()), 140 + 1 + 144);
    }

    #[test]
    fn a_changed_thread_that_may_start_another_is_awaited() {
        let waits = Walk { starting: 1, ..walk(0, 0, 0) };
        let mut left = 3;
        let done = walk_until_calm(7, LIMIT, Walk { starting: 1, ..walk(1, 0, 1) }, || {
            left -= 1;
            Ok(if left > 0 { waits } else { walk(0, 0, 0) })
        });
        assert!(done.is_ok() && left == 0, "{left} walks are left");
        // A thread that gets no CPU keeps nothing from ending.
        let limit = Duration::from_millis(50);
        let began = Instant::now();
        assert!(walk_until_calm(7, limit, waits, || Ok(waits)).is_ok());
        assert!(began.elapsed() >= limit);
    }

    #[test]
    fn threads_that_always_have_another_slack_are_refused() {
        let restless = [(1, 0, 1); WALKS_MIN as usize + 1];
        let error = walks(Duration::ZERO, &restless).expect_err("it has no time").to_string();
        assert!(error.contains("`kill -STOP 7`") && error.lines().count() == 1, "{error}");
        let limit = Duration::from_millis(50);
        for walk in [walk(1, 0, 1), walk(0, 1, 0)] {
            let began = Instant::now();
            let refused = walk_until_calm(7, limit, walk, || Ok(walk));
            assert!(matches!(refused, Err(TuneError::RestlessThreads { tgid: 7 })));
            assert!(began.elapsed() >= limit);
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = of_process(u32::MAX / 2, None).expect_err("no process has this number").to_string();
        assert!(error.contains("there is no process 2147483647"), "{error}");
        assert!(of_process(u32::MAX / 2, Some(Slack::Default)).is_err());
    }
}
