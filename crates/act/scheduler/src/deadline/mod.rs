//! The fall-back enforcer of reservations, by SCHED_DEADLINE, which every kernel has.
//!
//! A reservation covers one thread. If the budget is used up, the thread waits. It may run on all CPUs. Each
//! change is written into a journal first, and a guardian undoes it if the daemon does not.

mod kernel;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use spry_reservations::{Covers, Enforcer, Measurement, Reservation, Terms};
use spry_sys::attributes::Attributes;
use spry_sys::clock::monotonic_ns;
use spry_sys::run_time::RunTime;

use crate::daemon::process;
use crate::guardian::protection::Protection;
use crate::guardian::settings::{DEADLINE, IDLE, OTHER, Settings, TaskId};
use crate::guardian::{RestoreCounts, restore_left, undo};
pub use kernel::notes;

/// The name of this enforcer, as shown to users.
pub const NAME: &str = "deadline";
/// The path of the journal of changed threads.
pub const JOURNAL: &str = "/run/spry/reserve.journal";

/// A thread with a reservation, and the data to undo it.
#[derive(Clone, Copy, Debug)]
struct ReservedThread {
    id: TaskId,
    record: u32,
    before: Settings,
    ours: Settings,
    terms: Terms,
    since: MeasurementStart,
}

/// The begin of a reservation's measurement under its present terms.
#[derive(Clone, Copy, Debug)]
struct MeasurementStart {
    at_ns: u64,
    ran_ns: u64,
    /// The measurement under earlier terms.
    before: Measurement,
}

/// The fall-back enforcer of reservations. Dropping it ends all reservations.
#[derive(Debug)]
pub struct Deadline {
    path: PathBuf,
    /// The guardian and its journal, which exist from the first reservation on.
    guarded: Option<Protection>,
    by_slot: BTreeMap<u32, ReservedThread>,
}

impl Deadline {
    /// Undoes changes that an earlier daemon left behind, and returns how many of each kind were undone. The
    /// enforcer changes nothing else before the first reservation.
    pub fn start(path: PathBuf) -> (Deadline, RestoreCounts) {
        let left = restore_left(&path).unwrap_or_default();
        (Deadline { path, guarded: None, by_slot: BTreeMap::new() }, left)
    }

    /// The journal and a guardian that is alive. Nothing is changed without a guardian.
    fn guarded(&mut self) -> io::Result<&mut Protection> {
        let mut guarded = match self.guarded.take() {
            Some(guarded) => guarded,
            None => Protection::start(&self.path)?,
        };
        guarded.guard()?;
        Ok(self.guarded.insert(guarded))
    }

    fn take_back(&mut self, held: &ReservedThread) {
        if let Some(guarded) = &mut self.guarded {
            _ = undo(held.id, held.before, [held.ours; 2], guarded.base_slice_ns);
            guarded.journal.task_end(held.record);
        }
    }
}

impl Enforcer for Deadline {
    fn open(&mut self, reservation: &Reservation) -> io::Result<()> {
        let Reservation { slot, covers, terms, .. } = *reservation;
        let Covers::Thread { tid } = covers else {
            return Err(io::Error::other(
                "SCHED_DEADLINE, which stands in here, gives no budget to several threads together: reserve one thread (--tid)",
            ));
        };
        let gone = || io::Error::other(format!("thread {tid} has ended"));
        let tgid = process::of_thread(tid).ok_or_else(gone)?;
        let id = TaskId::now(tgid.0, tid).map_err(|_| gone())?;
        let guarded = self
            .guarded()
            .map_err(|error| io::Error::other(format!("no guardian of reservations can be had: {error}")))?;
        let before = Settings::of(id, guarded.base_slice_ns).map_err(|_| gone())?;
        if ![OTHER, IDLE, libc::SCHED_BATCH.unsigned_abs()].contains(&before.policy) {
            return Err(io::Error::other(
                "the thread is in a real-time class already: put it into SCHED_OTHER first (`chrt -o -p 0 TID`)",
            ));
        }
        // The kernel keeps no timer slack for a thread of this class.
        let ours = Settings { policy: DEADLINE, reset_on_fork: 1, slice_ns: 0, slack_ns: 0, ..before };
        let record = guarded.journal.task_begin(id, before, ours);
        let record = record.ok_or_else(|| io::Error::other("the journal of reservations is full"))?;
        if let Err(error) = give(tid, &terms) {
            guarded.journal.task_end(record);
            return Err(kernel::why(&error, tid, &terms));
        }
        let since =
            MeasurementStart { at_ns: monotonic_ns(), ran_ns: ran_ns(id), before: Measurement::default() };
        self.by_slot.insert(slot, ReservedThread { id, record, before, ours, terms, since });
        Ok(())
    }

    fn change(&mut self, slot: u32, terms: &Terms) -> io::Result<()> {
        let before = self.measured(slot);
        let (Some(held), Some(before)) = (self.by_slot.get_mut(&slot), before) else { return Ok(()) };
        if !held.id.is_alive() {
            return Err(io::Error::other(format!("thread {} has ended", held.id.tid)));
        }
        give(held.id.tid, terms).map_err(|error| kernel::why(&error, held.id.tid, terms))?;
        held.terms = *terms;
        held.since = MeasurementStart { at_ns: monotonic_ns(), ran_ns: ran_ns(held.id), before };
        Ok(())
    }

    fn close(&mut self, slot: u32) {
        if let Some(held) = self.by_slot.remove(&slot) {
            self.take_back(&held);
        }
    }

    /// Only CPU time and periods: the kernel does not report the other values, which are 0.
    fn measured(&self, slot: u32) -> Option<Measurement> {
        let ReservedThread { id, terms, since, .. } = self.by_slot.get(&slot)?;
        let periods = monotonic_ns().saturating_sub(since.at_ns) / terms.period_ns;
        let got_ns = ran_ns(*id).saturating_sub(since.ran_ns);
        let before = since.before;
        Some(Measurement {
            periods: before.periods + periods,
            got_ns: before.got_ns + got_ns,
            asked_ns: before.asked_ns + periods * terms.budget_ns,
            ..Measurement::default()
        })
    }

    fn name(&self) -> &'static str {
        NAME
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let slots: Vec<u32> = self.by_slot.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.close(slot));
    }
}

fn give(tid: u32, terms: &Terms) -> io::Result<()> {
    let Terms { budget_ns, period_ns, .. } = *terms;
    let attributes = Attributes::deadline(budget_ns, period_ns, period_ns).for_itself_alone();
    match attributes.give(tid) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            kernel::recount();
            attributes.give(tid)
        }
        given => given,
    }
}

/// The CPU time of a thread, ns; 0 if it has exited or the kernel does not report it.
fn ran_ns(id: TaskId) -> u64 {
    RunTime::of(id.tgid, id.tid).ok().and_then(|time| time.ran_ns()).unwrap_or(0)
}
