//! Opens, changes and ends the reservations of a graph.

use std::collections::BTreeMap;

use anyhow::Result;
use spry_control::{Answer, Client, ControlError, Covers, OnExhaustion, Request, ReservationChoice, Terms};
use spry_reservations::larger_budget_ns;

use super::busy::AudioThread;
use super::class::DemotedThread;
use super::said::EventPrinter;

/// A reservation keeps its budget if a new measurement differs from it by less than this, percent.
const SAME_PERCENT: u64 = 10;

/// A thread's reservation.
#[derive(Debug)]
struct ThreadReservation {
    thread: AudioThread,
    slot: u32,
    budget_ns: u64,
    /// The number of periods in which the budget was used up, as the daemon last reported.
    exhausted: u64,
    lifted: Option<DemotedThread>,
}

/// All reservations of the graph.
pub struct GraphReservations {
    client: Client,
    said: EventPrinter,
    by_tid: BTreeMap<u32, ThreadReservation>,
    refused: usize,
}

impl GraphReservations {
    pub fn new(client: Client, said: EventPrinter) -> GraphReservations {
        GraphReservations { client, said, by_tid: BTreeMap::new(), refused: 0 }
    }

    /// Ends the reservations of all threads except these, and of threads that have another period now.
    pub fn keep_only(&mut self, threads: &[AudioThread]) -> Result<()> {
        self.refused = 0;
        let is_left = |thread: &AudioThread| threads.iter().any(|other| other == thread);
        let over: Vec<u32> =
            self.by_tid.values().filter(|kept| !is_left(&kept.thread)).map(|kept| kept.thread.tid).collect();
        over.into_iter().try_for_each(|tid| self.release(tid))
    }

    /// Reserves for a thread, or changes its reservation. A refusal is printed, and is no error.
    pub fn reserve(&mut self, thread: &AudioThread, budget_ns: u64, ran_ns: u64) -> Result<()> {
        if let Some(kept) = self.by_tid.get(&thread.tid) {
            let larger = kept.budget_ns.max(budget_ns);
            if kept.budget_ns.abs_diff(budget_ns) * 100 <= larger * SAME_PERCENT {
                return Ok(());
            }
        }
        let known = self.by_tid.remove(&thread.tid);
        let lifted = match &known {
            Some(kept) => kept.lifted,
            None => match DemotedThread::take(thread.tid) {
                Ok(lifted) => lifted,
                Err(why) => return self.refuse(thread, budget_ns, &format!("its class: {why}")),
            },
        };
        let error = match self.ask(thread, budget_ns) {
            Ok(Some(opened)) => {
                let (exhausted, slot) = (known.map_or(0, |kept| kept.exhausted), opened.slot);
                let kept = ThreadReservation { thread: thread.clone(), slot, budget_ns, exhausted, lifted };
                self.by_tid.insert(thread.tid, kept);
                return self.said.reserved(thread, &opened, ran_ns);
            }
            Ok(None) => ControlError::Unexpected,
            Err(error) => error,
        };
        match (known, lifted) {
            // The old terms stay.
            (Some(kept), _) => drop(self.by_tid.insert(thread.tid, kept)),
            (None, Some(lifted)) => self.give_back(thread, &lifted)?,
            (None, None) => {}
        }
        match error {
            ControlError::Refused(refusal) => self.refuse(thread, budget_ns, &refusal.text),
            error => Err(error.into()),
        }
    }

    fn ask(
        &mut self,
        thread: &AudioThread,
        budget_ns: u64,
    ) -> Result<Option<spry_control::OpenedReservation>, ControlError> {
        // A thread with more work than was measured goes on without its reservation until the next period: a
        // gap of the rest of the period would be heard.
        let terms = Terms { budget_ns, period_ns: thread.period_ns, on_exhaustion: OnExhaustion::Demote };
        let covers = Covers::Thread { tid: thread.tid };
        match self.client.ask(&Request::Reserve { covers, terms, cpu: None })? {
            Answer::Opened(opened) => Ok(Some(opened)),
            _ => Ok(None),
        }
    }

    fn refuse(&mut self, thread: &AudioThread, budget_ns: u64, why: &str) -> Result<()> {
        self.refused += 1;
        self.said.refused(thread, budget_ns, why)
    }

    /// Prints that all reservations that fit were made.
    pub fn is_current(&self) -> Result<()> {
        self.said.current(self.by_tid.len(), self.refused)
    }

    /// Gives larger budgets to threads that have used up theirs, and forgets threads without a reservation.
    pub fn grow(&mut self) -> Result<()> {
        if self.by_tid.is_empty() {
            return Ok(());
        }
        let told = self.client.reservations()?.reservations;
        let slots: BTreeMap<u32, Option<u64>> = told
            .iter()
            .filter(|one| self.by_tid.get(&one.covers.number()).is_some_and(|kept| kept.slot == one.slot))
            .map(|one| (one.covers.number(), one.exhausted))
            .collect();
        // If a reservation was released by hand, its thread may still run, and gets its class back.
        let over: Vec<u32> = self.by_tid.keys().copied().filter(|tid| !slots.contains_key(tid)).collect();
        for tid in over {
            let Some(kept) = self.by_tid.remove(&tid) else { continue };
            if let Some(lifted) = &kept.lifted {
                self.give_back(&kept.thread, lifted)?;
            }
        }
        let mut grown = Vec::new();
        for (tid, kept) in &mut self.by_tid {
            let exhausted = slots.get(tid).copied().flatten().unwrap_or(kept.exhausted);
            if exhausted > kept.exhausted {
                grown.push((kept.thread.clone(), larger_budget_ns(kept.budget_ns, kept.thread.period_ns)));
            }
            kept.exhausted = exhausted;
        }
        for (thread, budget_ns) in grown {
            self.reserve(&thread, budget_ns, budget_ns)?;
        }
        Ok(())
    }

    /// Ends all reservations, and gives threads their classes back.
    pub fn release_all(&mut self) -> Result<()> {
        let tids: Vec<u32> = self.by_tid.keys().copied().collect();
        tids.into_iter().try_for_each(|tid| self.release(tid))
    }

    fn release(&mut self, tid: u32) -> Result<()> {
        let Some(kept) = self.by_tid.remove(&tid) else { return Ok(()) };
        match self.client.ask(&Request::Release { which: ReservationChoice::Slot(kept.slot) }) {
            // If the thread has ended, its reservation has ended already.
            Ok(_) | Err(ControlError::Refused(_)) => {}
            Err(error) => {
                self.by_tid.insert(tid, kept);
                return Err(error.into());
            }
        }
        if let Some(lifted) = &kept.lifted {
            self.give_back(&kept.thread, lifted)?;
        }
        self.said.released(&kept.thread)
    }

    fn give_back(&self, thread: &AudioThread, lifted: &DemotedThread) -> Result<()> {
        match lifted.give_back() {
            Ok(()) => Ok(()),
            // The thread has ended.
            Err(error) if error.raw_os_error() == Some(NO_SUCH_THREAD) => Ok(()),
            Err(error) => self.said.lost_class(thread, &error.to_string()),
        }
    }
}

/// The kernel's error number if there is no such thread (ESRCH).
const NO_SUCH_THREAD: i32 = 3;

impl Drop for GraphReservations {
    /// Gives threads their classes back if the daemon has ended, or if this command fails.
    fn drop(&mut self) {
        for kept in self.by_tid.values() {
            if let Some(lifted) = &kept.lifted {
                // Errors cannot be printed any more.
                _ = lifted.give_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spry_test_run::answer_once;

    use super::super::said::Form;
    use super::*;

    const OPENED: &str = r#"{"opened":{"slot":7,"cpu":1,"budget_ns":1000000,"period_ns":10000000,"on_exhaustion":"demote","enforcer":"scx","notes":[]}}"#;

    #[test]
    fn a_reservation_stays_known_if_the_daemon_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("sched.sock");
        let daemon = answer_once(&socket, OPENED);
        let mut held =
            GraphReservations::new(Client::connect(&socket).unwrap(), EventPrinter::new(Form::Json));
        let (tgid, tid) = (std::process::id(), spry_sys::process::tid());
        let thread = AudioThread { tgid, tid, comm: "loop".into(), period_ns: 10_000_000 };
        held.reserve(&thread, 1_000_000, 900_000).unwrap();
        daemon.join().unwrap();
        assert!(held.reserve(&thread, 5_000_000, 4_500_000).is_err());
        assert_eq!(held.by_tid.get(&tid).map(|kept| (kept.slot, kept.budget_ns)), Some((7, 1_000_000)));
    }
}
