//! The threads of one process that is given a place: each changed once, looked after, and changed back.

use std::collections::BTreeMap;
use std::io;

use super::plan::{Want, settings};
use crate::guardian::journal::Journal;
use crate::guardian::settings::{ROUND_ROBIN, Settings, TaskId, set_slack_ns, stat_of};
use crate::guardian::{DEMOTED, undo};

/// What became of the changes that a round asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Threads that are as they are to be.
    pub held: usize,
    /// Threads that the kernel did not let us change.
    pub refused: usize,
    /// Threads that the journal has no room for.
    pub unjournaled: usize,
}

/// One thread that was looked at.
#[derive(Debug)]
enum Thread {
    /// Changed; the record in the journal, what it had and what it has.
    Ours { id: TaskId, record: u32, before: Settings, ours: Settings },
    /// As it was.
    Left { id: TaskId, seen: Settings, why: Why },
}

/// Why a thread was left as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// It is not to be changed, or somebody else has changed it since.
    Theirs,
    /// The kernel did not let us.
    Refused,
}

/// The threads of a process by their numbers.
#[derive(Debug, Default)]
pub struct Threads {
    threads: BTreeMap<u32, Thread>,
    /// What the latest round wanted.
    want: Option<Want>,
}

/// What a round works with.
#[derive(Debug)]
pub struct Hand<'a> {
    /// Where changes are written before they are made.
    pub journal: &'a mut Journal,
    /// The kernel's own slice.
    pub base_slice_ns: u64,
    /// Counts.
    pub tally: Tally,
}

impl Threads {
    /// Gives all threads of a process, by their numbers, what is wanted.
    pub fn give(&mut self, tgid: u32, tids: &[u32], want: Want, hand: &mut Hand<'_>) {
        // Another want means another look at those that were left.
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
                        // Somebody else has set it. What else is ours is undone, and it is theirs from now on.
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

    /// Gives all threads back what they had.
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

    /// How many of the threads want a CPU just now, of the first so many.
    pub fn runnable(&self, most: usize) -> (u32, usize) {
        let looked = self.threads.iter().take(most);
        let is_running = |(_, thread): &(&u32, &Thread)| match thread {
            Thread::Ours { id, .. } => stat_of(id.tgid, id.tid).is_ok_and(|stat| stat.state == b'R'),
            Thread::Left { .. } => false,
        };
        (looked.filter(is_running).count() as u32, self.threads.len().min(most))
    }
}

/// Whether two wants differ in numbers only.
fn same_kind(one: Want, other: Want) -> Option<()> {
    (std::mem::discriminant(&one) == std::mem::discriminant(&other)).then_some(())
}

/// Whether the guardian has made an ordinary task of a real-time one.
fn is_demoted(now: Settings, ours: Settings) -> bool {
    ours.policy == ROUND_ROBIN && now == DEMOTED.without_slack()
}

/// The policy first: a real-time task has no slack, and gets the usual one back when it is none any more.
fn change(id: TaskId, from: Settings, to: Settings) -> io::Result<()> {
    to.schedule(id.tid)?;
    if to.slack_ns != 0 && (to.slack_ns != from.slack_ns || from.policy == ROUND_ROBIN) {
        // Not permitted everywhere; the rest holds without it.
        _ = set_slack_ns(id, to.slack_ns);
    }
    Ok(())
}
