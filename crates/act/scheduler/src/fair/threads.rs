//! The threads of one process that has a place: each thread is changed once, looked after, and changed back.

use std::collections::BTreeMap;
use std::io;

use super::plan::{Want, settings};
use crate::guardian::journal::Journal;
use crate::guardian::settings::{ROUND_ROBIN, Settings, TaskId, set_slack_ns, stat_of};
use crate::guardian::{DEMOTED, undo};

/// What became of the changes that a round asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Threads that have the settings that they are to have.
    pub held: usize,
    /// Threads that the kernel did not let Spry change.
    pub refused: usize,
    /// Threads that were not changed because the journal has no room for them.
    pub unjournaled: usize,
}

/// One thread that was looked at.
#[derive(Debug)]
enum Thread {
    /// A thread that Spry has changed; `record` is its record in the journal, `before` what it had, `ours`
    /// what it has now.
    Ours { id: TaskId, record: u32, before: Settings, ours: Settings },
    /// A thread that was left as it was.
    Left { id: TaskId, seen: Settings, why: Why },
}

/// Why a thread was left as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// The thread is not to be changed, or another program has changed it since.
    Theirs,
    /// The kernel did not let Spry change the thread.
    Refused,
}

/// The threads of a process by their numbers.
#[derive(Debug, Default)]
pub struct Threads {
    threads: BTreeMap<u32, Thread>,
    /// What the latest round wanted for the process.
    want: Option<Want>,
}

/// What a round works with while it changes threads.
#[derive(Debug)]
pub struct Hand<'a> {
    /// The journal, in which changes are written before they are made.
    pub journal: &'a mut Journal,
    /// The slice of threads that have asked for none, ns.
    pub base_slice_ns: u64,
    /// What became of the changes of this round.
    pub tally: Tally,
}

impl Threads {
    /// Gives all threads of a process what is wanted; `tids` are the threads' numbers.
    pub fn give(&mut self, tgid: u32, tids: &[u32], want: Want, hand: &mut Hand<'_>) {
        // If the want is of another kind than the last one, every thread is looked at anew.
        let anew = self.want.replace(want).is_some_and(|last| same_kind(last, want) != Some(()));
        let gone: Vec<u32> = self.threads.keys().copied().filter(|tid| !tids.contains(tid)).collect();
        for tid in gone {
            self.forget(tid, hand.journal);
        }
        for &tid in tids {
            if anew {
                self.take_back_one(tid, hand);
            }
            self.give_one(tgid, tid, want, hand);
        }
    }

    fn give_one(&mut self, tgid: u32, tid: u32, want: Want, hand: &mut Hand<'_>) {
        let known = match self.threads.get(&tid) {
            None => return self.give_new(tgid, tid, want, hand),
            Some(known) => known,
        };
        let Ok(now) = Settings::scheduling_of(tid, hand.base_slice_ns) else {
            return self.forget(tid, hand.journal);
        };
        match *known {
            Thread::Left { seen, why, .. } if seen.without_slack() == now => {
                hand.tally.refused += usize::from(why == Why::Refused);
            }
            Thread::Left { id, .. } => {
                if !id.is_alive() {
                    self.forget(tid, hand.journal);
                    self.give_new(tgid, tid, want, hand);
                }
            }
            Thread::Ours { id, record, before, ours } => {
                let is_ours = now == ours.without_slack() || is_demoted(now, ours);
                if !is_ours {
                    let alive = id.is_alive();
                    self.forget(tid, hand.journal);
                    if alive {
                        // Another program has set the thread. The other settings of Spry's are undone, and
                        // Spry leaves the thread alone from now on.
                        _ = undo(id, before, [ours, ours], hand.base_slice_ns);
                        let seen = Settings::of(id, hand.base_slice_ns).unwrap_or(now);
                        self.threads.insert(tid, Thread::Left { id, seen, why: Why::Theirs });
                    } else {
                        self.give_new(tgid, tid, want, hand);
                    }
                    return;
                }
                match settings(before, want) {
                    Some(next) if next == ours && now == ours.without_slack() => hand.tally.held += 1,
                    Some(next) => {
                        hand.journal.task_next(record, next);
                        if change(id, ours, next).is_ok() {
                            hand.tally.held += 1;
                        } else {
                            hand.tally.refused += 1;
                        }
                        self.threads.insert(tid, Thread::Ours { id, record, before, ours: next });
                    }
                    None => self.take_back_one(tid, hand),
                }
            }
        }
    }

    fn give_new(&mut self, tgid: u32, tid: u32, want: Want, hand: &mut Hand<'_>) {
        let Ok(stat) = stat_of(tgid, tid) else { return };
        let id = TaskId { tid, tgid, start: stat.start };
        let Ok(before) = Settings::of(id, hand.base_slice_ns) else { return };
        let next = if stat.is_kernel { None } else { settings(before, want) };
        let Some(next) = next.filter(|&next| next != before) else {
            self.threads.insert(tid, Thread::Left { id, seen: before, why: Why::Theirs });
            return;
        };
        let Some(record) = hand.journal.task_begin(id, before, next) else {
            hand.tally.unjournaled += 1;
            return;
        };
        if change(id, before, next).is_ok() {
            hand.tally.held += 1;
            self.threads.insert(tid, Thread::Ours { id, record, before, ours: next });
        } else {
            hand.tally.refused += 1;
            hand.journal.task_end(record);
            self.threads.insert(tid, Thread::Left { id, seen: before, why: Why::Refused });
        }
    }

    /// Gives all threads of the process back what they had.
    pub fn take_back(&mut self, hand: &mut Hand<'_>) {
        let tids: Vec<u32> = self.threads.keys().copied().collect();
        for tid in tids {
            self.take_back_one(tid, hand);
        }
        self.want = None;
    }

    fn take_back_one(&mut self, tid: u32, hand: &mut Hand<'_>) {
        if let Some(Thread::Ours { id, record, before, ours }) = self.threads.remove(&tid) {
            _ = undo(id, before, [ours, ours], hand.base_slice_ns);
            hand.journal.task_end(record);
        }
    }

    fn forget(&mut self, tid: u32, journal: &mut Journal) {
        if let Some(Thread::Ours { record, .. }) = self.threads.remove(&tid) {
            journal.task_end(record);
        }
    }

    /// How many of the first `most` threads want a CPU just now, and how many were looked at.
    pub fn runnable(&self, most: usize) -> (u32, usize) {
        let looked = self.threads.iter().take(most);
        let is_running = |(_, thread): &(&u32, &Thread)| match thread {
            Thread::Ours { id, .. } => stat_of(id.tgid, id.tid).is_ok_and(|stat| stat.state == b'R'),
            Thread::Left { .. } => false,
        };
        (looked.filter(is_running).count() as u32, self.threads.len().min(most))
    }
}

/// Whether two wants are of the same kind and differ in numbers only.
fn same_kind(one: Want, other: Want) -> Option<()> {
    (std::mem::discriminant(&one) == std::mem::discriminant(&other)).then_some(())
}

/// Whether the guardian has made an ordinary task of a real-time task.
fn is_demoted(now: Settings, ours: Settings) -> bool {
    ours.policy == ROUND_ROBIN && now == DEMOTED.without_slack()
}

/// Gives a thread new settings. The policy comes first: a real-time task has no slack, and gets the usual
/// slack back when it becomes an ordinary task.
fn change(id: TaskId, from: Settings, to: Settings) -> io::Result<()> {
    to.schedule(id.tid)?;
    if to.slack_ns != 0 && (to.slack_ns != from.slack_ns || from.policy == ROUND_ROBIN) {
        // Setting the slack is not permitted everywhere; the other settings hold without it.
        _ = set_slack_ns(id, to.slack_ns);
    }
    Ok(())
}
