//! Single threads: giving a thread a slack, and knowing which slack it has.

use std::collections::BTreeSet;
use std::io;

use spry_sys::slack::{Slack, has_exited};

use crate::guardian::journal::Journal;
use crate::guardian::settings::{BACKGROUND_SLACK_NS, IN_USE_SLACK_NS, Settings, TaskId, USUAL_SLACK_NS};

/// A thread that has a slack by class, or had one. The others have no data.
#[derive(Debug)]
pub enum Thread {
    /// A thread with a slack by class: `record` is its number in the journal, `before` are its
    /// settings before.
    Ours { id: TaskId, record: u32, before: Settings, slack_ns: u64 },
    /// A thread that has changed its slack since. It keeps this slack.
    Theirs { id: TaskId },
}

/// The threads that could not be changed since the beginning of the latest sweep.
#[derive(Debug, Default)]
pub struct Failures {
    /// The threads that the kernel did not permit Spry to change.
    pub refused: BTreeSet<u32>,
    /// The threads that were not changed because the journal is full.
    pub unjournaled: BTreeSet<u32>,
}

impl Thread {
    /// Removes the entry of the thread in the journal, if it has one.
    pub fn end_record(&self, journal: &mut Journal) {
        if let Thread::Ours { record, .. } = *self {
            journal.task_end(record);
        }
    }
}

/// The data that a visit needs to change threads.
pub struct Hand<'a> {
    /// The journal, into which each change is written first.
    pub journal: &'a mut Journal,
    /// The slice of threads that have requested none, ns.
    pub base_slice_ns: u64,
    /// The threads that could not be changed.
    pub failures: &'a mut Failures,
}

impl Hand<'_> {
    /// Gives a thread a slack, if the thread has not chosen another one. Returns the data on the thread after
    /// that; `None` if there is none. `id` has no start.
    pub fn give(&mut self, id: TaskId, wanted_ns: u64, before: Option<Thread>) -> Option<Thread> {
        let opened = Slack::open(id.tid).and_then(|file| Ok((file.ns()?, file)));
        let (now_ns, file) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.refused(id.tid, &error);
                before?.end_record(self.journal);
                return None;
            }
        };
        match before {
            Some(Thread::Ours { id, record, before, slack_ns }) if slack_ns == now_ns => {
                if now_ns != wanted_ns {
                    self.journal.task_next(record, Settings { slack_ns: wanted_ns, ..before });
                    // A thread that has exited is dropped by the next visit.
                    _ = file.set_ns(wanted_ns);
                }
                Some(Thread::Ours { id, record, before, slack_ns: wanted_ns })
            }
            Some(Thread::Ours { id, record, .. }) => {
                self.journal.task_end(record);
                // The kernel gives a real-time thread slack 0, and its first slack when it is none any more.
                if now_ns != 0 && id.is_alive() {
                    return Some(Thread::Theirs { id });
                }
                self.give_new(id, wanted_ns, now_ns, &file)
            }
            Some(Thread::Theirs { id }) if id.is_alive() => Some(Thread::Theirs { id }),
            Some(Thread::Theirs { .. }) | None => self.give_new(id, wanted_ns, now_ns, &file),
        }
    }

    /// Gives a thread a slack for the first time. The file was opened before the thread is looked for in its
    /// process, so a later thread of the same number is never changed.
    fn give_new(&mut self, id: TaskId, wanted_ns: u64, now_ns: u64, file: &Slack) -> Option<Thread> {
        if ![USUAL_SLACK_NS, IN_USE_SLACK_NS, BACKGROUND_SLACK_NS].contains(&now_ns) {
            return None;
        }
        let id = TaskId::now(id.tgid, id.tid).ok()?;
        let settings = Settings::scheduling_of(id.tid, self.base_slice_ns).ok()?;
        if settings.is_real_time() {
            return None;
        }
        let before = Settings { slack_ns: USUAL_SLACK_NS, ..settings };
        let Some(record) = self.journal.task_begin(id, before, Settings { slack_ns: wanted_ns, ..before })
        else {
            self.failures.unjournaled.insert(id.tid);
            return None;
        };
        match file.set_ns(wanted_ns) {
            Ok(()) => Some(Thread::Ours { id, record, before, slack_ns: wanted_ns }),
            Err(error) => {
                self.refused(id.tid, &error);
                self.journal.task_end(record);
                None
            }
        }
    }

    fn refused(&mut self, tid: u32, error: &io::Error) {
        if !has_exited(error) {
            self.failures.refused.insert(tid);
        }
    }
}

/// Gives a thread the usual slack if it has inherited a slack by class.
pub fn take_inherited(tid: u32) {
    let Ok(file) = Slack::open(tid) else { return };
    if file.ns().is_ok_and(|ns| [IN_USE_SLACK_NS, BACKGROUND_SLACK_NS].contains(&ns)) {
        // A thread that has exited needs no slack.
        _ = file.set_ns(USUAL_SLACK_NS);
    }
}
