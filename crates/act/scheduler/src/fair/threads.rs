//! The threads of one process that Spry changes: each is changed once, checked in each round,
//! and changed back.

use std::collections::BTreeMap;
use std::io;

use super::plan::{WantedSettings, settings};
use crate::guardian::journal::Journal;
use crate::guardian::settings::{ROUND_ROBIN, Settings, TaskId, set_slack_ns, stat_of};
use crate::guardian::{DEMOTED, undo};

/// The numbers of changes of a round that succeeded and failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Threads that have the wanted settings.
    pub held: usize,
    /// Threads that the kernel did not permit Spry to change.
    pub refused: usize,
    /// Threads that were not changed because the journal is full.
    pub unjournaled: usize,
}

/// A thread of the process, and Spry's change to it.
#[derive(Debug)]
enum Thread {
    /// A thread that Spry has changed: `record` is its number in the journal, `before` its settings before,
    /// `ours` its settings from Spry.
    Ours { id: TaskId, record: u32, before: Settings, ours: Settings },
    /// A thread that Spry has not changed. `seen` are its settings.
    Left { id: TaskId, seen: Settings, why: LeaveReason },
}

/// The reason why Spry has not changed a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeaveReason {
    /// The thread needs no change, or another program has changed it since.
    Theirs,
    /// The kernel did not permit the change.
    Refused,
}

/// The threads of a process by their numbers.
#[derive(Debug, Default)]
pub struct Threads {
    threads: BTreeMap<u32, Thread>,
    /// The settings that the process was to have in the latest round.
    want: Option<WantedSettings>,
}

/// The data that a round needs to change threads.
#[derive(Debug)]
pub struct Hand<'a> {
    /// The journal, into which each change is written first.
    pub journal: &'a mut Journal,
    /// The slice of threads that have requested none, ns.
    pub base_slice_ns: u64,
    /// The numbers of changes of this round that succeeded and failed.
    pub tally: Tally,
}

impl Threads {
    /// Gives all threads of a process the settings for `want`. `tids` are the threads' numbers.
    pub fn give(&mut self, tgid: u32, tids: &[u32], want: WantedSettings, hand: &mut Hand<'_>) {
        // If the process is to have another kind of settings than before, all threads are changed back first.
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

    fn give_one(&mut self, tgid: u32, tid: u32, want: WantedSettings, hand: &mut Hand<'_>) {
        let known = match self.threads.get(&tid) {
            None => return self.give_new(tgid, tid, want, hand),
            Some(known) => known,
        };
        let Ok(now) = Settings::scheduling_of(tid, hand.base_slice_ns) else {
            return self.forget(tid, hand.journal);
        };
        match *known {
            Thread::Left { seen, why, .. } if seen.without_slack() == now => {
                hand.tally.refused += usize::from(why == LeaveReason::Refused);
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
                        // Another program has changed the thread. Spry undoes its own other settings, and
                        // does not change the thread any more.
                        _ = undo(id, before, [ours, ours], hand.base_slice_ns);
                        let seen = Settings::of(id, hand.base_slice_ns).unwrap_or(now);
                        self.threads.insert(tid, Thread::Left { id, seen, why: LeaveReason::Theirs });
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

    fn give_new(&mut self, tgid: u32, tid: u32, want: WantedSettings, hand: &mut Hand<'_>) {
        let Ok(stat) = stat_of(tgid, tid) else { return };
        let id = TaskId { tid, tgid, start: stat.start };
        let Ok(before) = Settings::of(id, hand.base_slice_ns) else { return };
        let next = if stat.is_kernel { None } else { settings(before, want) };
        let Some(next) = next.filter(|&next| next != before) else {
            self.threads.insert(tid, Thread::Left { id, seen: before, why: LeaveReason::Theirs });
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
            self.threads.insert(tid, Thread::Left { id, seen: before, why: LeaveReason::Refused });
        }
    }

    /// Restores the settings of all threads of the process.
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

    /// The numbers of runnable threads among the first `most` threads, and of threads that were checked.
    pub fn runnable(&self, most: usize) -> (u32, usize) {
        let looked = self.threads.iter().take(most);
        let is_running = |(_, thread): &(&u32, &Thread)| match thread {
            Thread::Ours { id, .. } => stat_of(id.tgid, id.tid).is_ok_and(|stat| stat.state == b'R'),
            Thread::Left { .. } => false,
        };
        (looked.filter(is_running).count() as u32, self.threads.len().min(most))
    }
}

/// Whether two wants are of the same kind, and differ in numbers at most.
fn same_kind(one: WantedSettings, other: WantedSettings) -> Option<()> {
    (std::mem::discriminant(&one) == std::mem::discriminant(&other)).then_some(())
}

/// Whether the guardian has demoted a real-time thread to an ordinary one.
fn is_demoted(now: Settings, ours: Settings) -> bool {
    ours.policy == ROUND_ROBIN && now == DEMOTED.without_slack()
}

/// Gives a thread new settings. The policy comes first: the kernel gives a real-time task no slack, and the
/// usual slack again when it becomes an ordinary task.
fn change(id: TaskId, from: Settings, to: Settings) -> io::Result<()> {
    to.schedule(id.tid)?;
    if to.slack_ns != 0 && (to.slack_ns != from.slack_ns || from.policy == ROUND_ROBIN) {
        // Setting the slack is not permitted everywhere; the other settings are useful without it.
        _ = set_slack_ns(id, to.slack_ns);
    }
    Ok(())
}
