//! Timer slack by class, beside the scheduler in the kernel: the timers of threads in use expire within 1 us,
//! those of users' other threads up to 4 ms late, so that one wake-up serves several of them.
//!
//! A thread is changed only if it has the kernel's usual slack: any other slack was chosen by the thread or
//! its starter. Threads of root and of the system are changed only while they are in use. Each change is
//! written into a journal first, and a guardian undoes it if the daemon does not.

mod threads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use spry_policy::{Due, Tgid};
use spry_sys::clock::monotonic_ns;

use crate::daemon::process::{self, Process};
use crate::guardian::protection::Protection;
use crate::guardian::settings::{BACKGROUND_SLACK_NS, IN_USE_SLACK_NS, Settings, TaskId};
use crate::guardian::{restore_all, restore_left, undo};
use threads::{Failures, Hand, Thread, take_inherited};

/// The path of the journal of changed threads.
pub const JOURNAL: &str = "/run/spry/slack.journal";
/// The most threads of a process that are changed. Further threads keep their slack.
pub const THREADS_MAX: usize = 1_000;
/// The time after which a round visits no further process, ns: once for processes in use, and once
/// for all others.
const ROUND_NS: u64 = 5_000_000;

/// The settings of timer slack by class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlackOptions {
    /// The path of the journal's file.
    pub journal: PathBuf,
    /// The users with programs that get the slack of the background while they are not in use.
    pub users: RangeInclusive<u32>,
    /// The time from the beginning of one sweep over all processes to the next, ns.
    pub sweep_ns: u64,
}

impl Default for SlackOptions {
    fn default() -> SlackOptions {
        SlackOptions { journal: JOURNAL.into(), users: 1_000..=60_000, sweep_ns: 10_000_000_000 }
    }
}

/// The processes of a round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// The processes in use.
    pub in_use: BTreeSet<Tgid>,
    /// Processes that do not get the slack of the background: the daemon's helpers, and those
    /// with reservations.
    pub kept: BTreeSet<Tgid>,
}

/// The class of a process' slack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlackClass {
    InUse,
    Background,
}

impl SlackClass {
    const fn ns(self) -> u64 {
        match self {
            SlackClass::InUse => IN_USE_SLACK_NS,
            SlackClass::Background => BACKGROUND_SLACK_NS,
        }
    }
}

/// A process with threads that have a slack by class, or had one.
#[derive(Debug)]
struct ChangedProcess {
    class: SlackClass,
    threads: BTreeMap<u32, Thread>,
}

/// Timer slack by class. Dropping it gives all threads their former slack.
#[derive(Debug)]
pub struct SlackByClass {
    protection: Protection,
    options: SlackOptions,
    processes: BTreeMap<Tgid, ChangedProcess>,
    /// The processes that the present sweep has yet to visit.
    pending: VecDeque<Tgid>,
    /// The beginning of the latest sweep, ns.
    swept_ns: Option<u64>,
    failures: Failures,
    trouble: Option<String>,
}

impl SlackByClass {
    /// Undoes changes that an earlier daemon may have left, and starts a guardian. No thread is changed yet.
    ///
    /// # Errors
    /// If another daemon or its guardian has locked the journal, or no guardian can be started.
    pub fn start(options: SlackOptions) -> io::Result<SlackByClass> {
        restore_left(&options.journal)?;
        Ok(SlackByClass {
            protection: Protection::start(&options.journal)?,
            options,
            processes: BTreeMap::new(),
            pending: VecDeque::new(),
            swept_ns: None,
            failures: Failures::default(),
            trouble: None,
        })
    }

    /// The process of the guardian.
    pub const fn guardian_tgid(&self) -> Tgid {
        Tgid(self.protection.guardian_tgid())
    }

    /// Gives threads the slack of their class: at once if their process comes into use or leaves it,
    /// otherwise at the round of a second, as far as its time allows.
    pub fn round(&mut self, placement: &Placement, due: Due) {
        if let Err(error) = self.protection.guard() {
            self.give_all_back();
            self.trouble =
                Some(format!("timer slack is as it was, since no guardian can be started: {error}"));
            return;
        }
        self.trouble = None;
        let mut first = self.moved(placement);
        if due == Due::Regular {
            let moved: BTreeSet<Tgid> = first.iter().copied().collect();
            first.extend(placement.in_use.difference(&moved));
        }
        let budget = Budget::new();
        first.into_iter().take_while(|_| budget.is_left()).for_each(|tgid| self.visit(tgid, placement));
        if due == Due::Regular {
            self.sweep(placement);
        }
    }

    /// The processes that have come into use or left it since the latest round.
    fn moved(&self, placement: &Placement) -> Vec<Tgid> {
        let is_ours =
            |tgid: &&Tgid| self.processes.get(tgid).is_some_and(|process| process.class == SlackClass::InUse);
        let come = placement.in_use.iter().filter(|tgid| !is_ours(tgid));
        let left = self.processes.keys().filter(|tgid| is_ours(tgid) && !placement.in_use.contains(tgid));
        come.chain(left).copied().collect()
    }

    /// Goes on with the sweep over all processes, and begins the next one when it is due.
    fn sweep(&mut self, placement: &Placement) {
        let now_ns = monotonic_ns();
        let is_due = self.swept_ns.is_none_or(|swept_ns| now_ns >= swept_ns + self.options.sweep_ns);
        if self.pending.is_empty() && is_due {
            self.swept_ns = Some(now_ns);
            let living: BTreeSet<Tgid> = process::all().into_iter().collect();
            let gone: Vec<Tgid> =
                self.processes.keys().filter(|tgid| !living.contains(tgid)).copied().collect();
            gone.into_iter().for_each(|tgid| self.forget(tgid));
            self.pending = living.into_iter().collect();
            self.failures = Failures::default();
        }
        let budget = Budget::new();
        while budget.is_left() {
            let Some(tgid) = self.pending.pop_front() else { break };
            self.visit(tgid, placement);
        }
    }

    /// Gives the threads of a process the slack of its class.
    fn visit(&mut self, tgid: Tgid, placement: &Placement) {
        let Some(found) = Process::of(tgid) else { return self.forget(tgid) };
        if found.is_kernel() {
            return;
        }
        match self.class_of(tgid, placement) {
            Some(class) => self.give(tgid, class),
            None => {
                self.take_back(tgid);
                // Older processes have inherited nothing.
                if found.start_ticks >= self.protection.journal.since() {
                    threads_of(tgid).for_each(take_inherited);
                }
            }
        }
    }

    fn class_of(&self, tgid: Tgid, placement: &Placement) -> Option<SlackClass> {
        if placement.in_use.contains(&tgid) {
            return Some(SlackClass::InUse);
        }
        let is_background = || process::owner(tgid).is_some_and(|uid| self.options.users.contains(&uid));
        (!placement.kept.contains(&tgid) && is_background()).then_some(SlackClass::Background)
    }

    fn give(&mut self, tgid: Tgid, class: SlackClass) {
        let fresh = ChangedProcess { class, threads: BTreeMap::new() };
        let process = self.processes.entry(tgid).or_insert(fresh);
        process.class = class;
        let tids: BTreeSet<u32> = threads_of(tgid).collect();
        let Protection { journal, base_slice_ns, .. } = &mut self.protection;
        process.threads.retain(|tid, thread| {
            let lives = tids.contains(tid);
            if !lives {
                thread.end_record(journal);
            }
            lives
        });
        for tid in tids {
            let before = process.threads.remove(&tid);
            let mut hand = Hand { journal, base_slice_ns: *base_slice_ns, failures: &mut self.failures };
            if let Some(after) = hand.give(TaskId { tid, tgid: tgid.0, start: 0 }, class.ns(), before) {
                process.threads.insert(tid, after);
            }
        }
    }

    /// Gives the threads of a process their former slack.
    fn take_back(&mut self, tgid: Tgid) {
        let Some(process) = self.processes.remove(&tgid) else { return };
        let Protection { journal, base_slice_ns, .. } = &mut self.protection;
        for thread in process.threads.values() {
            if let Thread::Ours { id, before, slack_ns, .. } = *thread {
                _ = undo(id, before, [Settings { slack_ns, ..before }; 2], *base_slice_ns);
            }
            thread.end_record(journal);
        }
    }

    /// Drops the data of a process that has exited.
    fn forget(&mut self, tgid: Tgid) {
        let Some(process) = self.processes.remove(&tgid) else { return };
        process.threads.values().for_each(|thread| thread.end_record(&mut self.protection.journal));
    }

    fn give_all_back(&mut self) {
        _ = restore_all(&mut self.protection.journal);
        self.processes.clear();
        self.pending.clear();
        self.swept_ns = None;
    }

    /// The slack of each class, and the numbers of threads that have it from Spry.
    pub fn told(&self) -> spry_control::TimerSlack {
        let threads = |class: SlackClass| {
            let processes = self.processes.values().filter(|process| process.class == class);
            let threads = processes.flat_map(|process| process.threads.values());
            threads.filter(|thread| matches!(thread, Thread::Ours { .. })).count() as u64
        };
        spry_control::TimerSlack {
            in_use_ns: IN_USE_SLACK_NS,
            in_use_threads: threads(SlackClass::InUse),
            background_ns: BACKGROUND_SLACK_NS,
            background_threads: threads(SlackClass::Background),
        }
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> Vec<String> {
        let Failures { refused, unjournaled } = &self.failures;
        let counted = [(refused, "the kernel does not permit it"), (unjournaled, "the journal is full")];
        let counted = counted.into_iter().filter(|(threads, _)| !threads.is_empty());
        let counted = counted
            .map(|(threads, why)| format!("{} threads have no timer slack by class: {why}", threads.len()));
        self.trouble.iter().cloned().chain(counted).collect()
    }
}

impl Drop for SlackByClass {
    fn drop(&mut self) {
        self.give_all_back();
    }
}

/// The numbers of a process' threads, at most [`THREADS_MAX`] of them.
fn threads_of(tgid: Tgid) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(format!("/proc/{}/task", tgid.0)).into_iter().flatten().flatten();
    entries.take(THREADS_MAX).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The time that visits of one round have left.
struct Budget {
    until_ns: u64,
}

impl Budget {
    fn new() -> Budget {
        Budget { until_ns: monotonic_ns() + ROUND_NS }
    }

    fn is_left(&self) -> bool {
        monotonic_ns() < self.until_ns
    }
}
