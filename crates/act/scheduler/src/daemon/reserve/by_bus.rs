//! Requests from the system bus, where programs request real-time priorities. A thread gets a reservation,
//! with a budget that follows its run time, or a nice value.

use std::collections::BTreeMap;

use spry_control::rtkit::{Bursts, DaemonAnswer, FrontRequest, NICE_MIN, Outcome, RequestKind};
use spry_control::{Refusal, RefusalKind};
use spry_policy::Tgid;
use spry_reservations::{Busy, Covers, OnExhaustion, Terms, larger_budget_ns, most_budget_ns};
use spry_sys::attributes::Attributes;
use spry_sys::run_time::RunTime;
use spry_sys::{poll, schedule};

use super::{Asker, Reservations, find};
use crate::daemon::answers::is_of;
use crate::daemon::process::Process;

/// The period of reservations from the bus, ns.
const PERIOD_NS: u64 = 10_000_000;
/// Budgets, ns. BEGINNING_NS is the first budget, small enough that the threads of a starting session fit.
/// GROWN_NS is the first budget if a thread waits when its budget is used up, and the least to which a budget
/// grows. LEAST_NS is the smallest budget that is tried.
const BEGINNING_NS: u64 = 250_000;
const GROWN_NS: u64 = 1_000_000;
const LEAST_NS: u64 = 100_000;
/// The time for which a thread's run time is measured, ns, and the most threads at once.
const MEASURED_NS: u64 = 3_000_000_000;
const AT_ONCE: usize = 16;
/// A budget is not changed if the measured budget differs by less than this, percent.
const SAME_PERCENT: u64 = 10;
/// The most threads of one person that requests from the bus can serve, as in rtkit.
pub(super) const THREADS: usize = 25;
/// Budgets of which at least this part was used, percent, count as used up, if the enforcer does not
/// report that itself.
const USED_UP_PERCENT: u64 = 95;

/// The measurement of a thread's run time.
#[derive(Debug)]
struct RunTimeMeter {
    time: RunTime,
    busy: Busy,
    ran_ns: u64,
    read_ns: u64,
    until_ns: u64,
}

/// A reservation that was requested on the bus.
#[derive(Debug)]
struct BusReservation {
    person: u32,
    tid: u32,
    budget_ns: u64,
    measuring: Option<RunTimeMeter>,
    /// Whether its thread's run time is to be measured.
    is_due: bool,
    /// The enforcer's counts when last read: periods with the budget used up; run time, ns; budgets, ns.
    counted: (u64, u64, u64),
}

/// A thread with a nice value from the bus.
#[derive(Debug)]
struct NiceChange {
    person: u32,
    uid: u32,
    start_ticks: u64,
    before: i32,
    ours: i32,
}

/// All that was requested on the bus.
#[derive(Debug, Default)]
pub(super) struct BusRequests {
    kept: BTreeMap<u32, BusReservation>,
    raised: BTreeMap<u32, NiceChange>,
    bursts: Bursts,
}

impl BusRequests {
    /// Removes a reservation that has ended, or has got terms by another request.
    pub(super) fn forget(&mut self, slot: u32) {
        self.kept.remove(&slot);
    }

    fn threads_of(&self, person: u32) -> usize {
        let kept = self.kept.values().filter(|kept| kept.person == person).count();
        kept + self.raised.values().filter(|raised| raised.person == person).count()
    }

    /// Restores the threads' nice values, if the present values are still the values from the bus.
    fn give_back(&mut self) {
        for (tid, raised) in std::mem::take(&mut self.raised) {
            if raised.is_current(tid) && schedule::nice(tid).is_ok_and(|nice| nice == raised.ours) {
                // The thread may have exited.
                _ = schedule::set_nice(tid, raised.before);
            }
        }
    }
}

impl NiceChange {
    fn is_current(&self, tid: u32) -> bool {
        Process::of(Tgid(tid)).is_some_and(|found| found.start_ticks == self.start_ticks)
            && is_of(Tgid(tid), self.uid)
    }
}

impl RunTimeMeter {
    fn begin(tid: u32, now_ns: u64) -> Option<RunTimeMeter> {
        let time = RunTime::of(tid, tid).ok()?;
        let ran_ns = time.ran_ns()?;
        let until_ns = now_ns + MEASURED_NS;
        Some(RunTimeMeter { time, busy: Busy::default(), ran_ns, read_ns: now_ns, until_ns })
    }

    /// Reads the run time, if a period has passed since the last reading.
    fn look(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.read_ns);
        if elapsed_ns < PERIOD_NS {
            return;
        }
        if let Some(ran_ns) = self.time.ran_ns() {
            self.busy.take(ran_ns.saturating_sub(self.ran_ns), elapsed_ns, PERIOD_NS);
            (self.ran_ns, self.read_ns) = (ran_ns, now_ns);
        }
    }
}

const fn terms(budget_ns: u64) -> Terms {
    Terms { budget_ns, period_ns: PERIOD_NS, on_exhaustion: OnExhaustion::Demote }
}

/// The budgets to try one after another: `first_ns`, then half of the previous budget, down to LEAST_NS.
fn tries(first_ns: u64) -> impl Iterator<Item = u64> {
    let halves = std::iter::successors(Some(first_ns), |&last| (last > LEAST_NS).then_some(last / 2));
    halves.map(|budget_ns| budget_ns.max(LEAST_NS))
}

fn denied(text: impl Into<String>) -> Refusal {
    Refusal { kind: RefusalKind::Denied, text: text.into() }
}

impl Reservations {
    /// Handles a request from the process on the bus. Only the user of the request is trusted: threads are
    /// checked again, and the limits of users hold.
    pub fn asked_by_bus(&mut self, asked: FrontRequest, person: u32, now_ns: u64) -> DaemonAnswer {
        let done = match asked.what {
            RequestKind::Reset => {
                self.end_by_bus();
                Ok(())
            }
            RequestKind::Realtime | RequestKind::HighPriority => self.asked_for_thread(asked, person, now_ns),
            RequestKind::End => Ok(()),
        };
        match done {
            Ok(()) => DaemonAnswer { outcome: Outcome::Done, text: String::new() },
            Err(Refusal { kind, text }) => {
                let outcome = match kind {
                    RefusalKind::Unable | RefusalKind::Malformed => Outcome::Failed,
                    RefusalKind::Denied | RefusalKind::NoProcess | RefusalKind::Busy => Outcome::Denied,
                };
                DaemonAnswer { outcome, text }
            }
        }
    }

    fn asked_for_thread(&mut self, asked: FrontRequest, person: u32, now_ns: u64) -> Result<(), Refusal> {
        let FrontRequest { what, uid, tgid, tid, nice } = asked;
        if uid == 0 {
            return Err(denied("root has the right itself: see `spry reserve` and chrt(1)"));
        }
        if self.enforcer.is_none() {
            return Err(super::unable("the daemon only looks (--observe-only)".to_owned()));
        }
        if !self.by_bus.bursts.take(person, now_ns) {
            return Err(denied("more than 25 requests in 20 s: ask again later"));
        }
        let covers = Covers::Thread { tid };
        let found = find(uid, covers)?;
        if found.tgid != tgid {
            return Err(super::no_process(uid, tid));
        }
        let is_known = match what {
            RequestKind::HighPriority => self.by_bus.raised.contains_key(&tid),
            RequestKind::Realtime | RequestKind::Reset | RequestKind::End => {
                self.is_held(tid, found.start_ticks)
            }
        };
        if !is_known && self.by_bus.threads_of(person) >= THREADS {
            return Err(denied(format!("{THREADS} threads have what was asked for, and no more can")));
        }
        match what {
            RequestKind::HighPriority => self.raise(asked, person, &found.end, found.start_ticks, nice),
            // A thread with a reservation keeps it.
            _ if is_known => Ok(()),
            RequestKind::Realtime | RequestKind::Reset | RequestKind::End => {
                self.open_by_bus(Asker { uid, person }, tid)
            }
        }
    }

    fn is_held(&self, tid: u32, start_ticks: u64) -> bool {
        self.held.values().any(|held| held.covers.number() == tid && held.start_ticks == start_ticks)
    }

    fn open_by_bus(&mut self, asker: Asker, tid: u32) -> Result<(), Refusal> {
        if Attributes::of(tid).is_ok_and(|is| is.is_real_time()) {
            return Err(super::unable("the thread is in a real-time class already".to_owned()));
        }
        let covers = Covers::Thread { tid };
        let mut refused = None;
        let first_ns = match self.possible(terms(BEGINNING_NS)).on_exhaustion {
            OnExhaustion::Demote => BEGINNING_NS,
            OnExhaustion::Wait => GROWN_NS,
        };
        for budget_ns in tries(first_ns) {
            match self.reserve(asker, covers, terms(budget_ns), None) {
                Ok(opened) => {
                    let (person, measuring) = (asker.person, None);
                    let kept = BusReservation {
                        person,
                        tid,
                        budget_ns,
                        measuring,
                        is_due: true,
                        counted: Default::default(),
                    };
                    self.by_bus.kept.insert(opened.slot, kept);
                    return Ok(());
                }
                Err(refusal) => refused = Some(refusal),
            }
        }
        // A reservation that does not fit is denied, as rtkit denies a thread too many.
        let text = refused.map(|refusal| refusal.text).unwrap_or_default();
        Err(denied(text))
    }

    /// Sets a thread's nice value. Restores it if the number belongs to another thread meanwhile.
    fn raise(
        &mut self,
        asked: FrontRequest,
        person: u32,
        end: &std::os::fd::OwnedFd,
        start_ticks: u64,
        nice: i32,
    ) -> Result<(), Refusal> {
        let FrontRequest { uid, tid, .. } = asked;
        if !(NICE_MIN..20).contains(&nice) {
            return Err(denied(format!("a nice value is {NICE_MIN} to 19")));
        }
        let no_thread = || super::no_process(uid, tid);
        let before = schedule::nice(tid).map_err(|_| no_thread())?;
        let is = Attributes::of(tid).map_err(|_| no_thread())?;
        if is.numbers().sched_policy != libc::SCHED_OTHER.unsigned_abs() {
            return Err(super::unable("the thread is not in the ordinary class".to_owned()));
        }
        // The thread keeps its slice, and its children start with nice 0.
        let mut numbers = *is.numbers();
        numbers.sched_nice = nice;
        let given = Attributes::of_numbers(numbers).for_itself_alone().give(tid);
        given.map_err(|error| super::unable(format!("thread {tid}: {error}")))?;
        let raised = NiceChange { person, uid, start_ticks, before, ours: nice };
        if poll::is_ready(end) || !raised.is_current(tid) {
            _ = schedule::set_nice(tid, before);
            return Err(no_thread());
        }
        let first = self.by_bus.raised.remove(&tid).map_or(before, |raised| raised.before);
        self.by_bus.raised.insert(tid, NiceChange { before: first, ..raised });
        Ok(())
    }

    /// Ends all reservations and nice values from the bus.
    pub(super) fn end_by_bus(&mut self) {
        let slots: Vec<u32> = self.by_bus.kept.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.close(slot));
        self.by_bus.give_back();
    }

    /// The time of the next reading of a run time, on the monotonic clock, ns.
    pub fn next_reading_ns(&self) -> Option<u64> {
        let measuring = self.by_bus.kept.values().filter_map(|kept| kept.measuring.as_ref());
        measuring.map(|measuring| measuring.read_ns + PERIOD_NS).min()
    }

    /// Reads the run times that are due. Reservations with a complete measurement get their new budgets.
    pub fn read_run_times(&mut self, now_ns: u64) {
        let mut over = Vec::new();
        for (&slot, kept) in &mut self.by_bus.kept {
            let Some(measuring) = &mut kept.measuring else { continue };
            measuring.look(now_ns);
            if now_ns >= measuring.until_ns {
                over.push(slot);
            }
        }
        for slot in over {
            let Some(kept) = self.by_bus.kept.get_mut(&slot) else { continue };
            let Some(measuring) = kept.measuring.take() else { continue };
            let wanted_ns = measuring.busy.budget_ns(PERIOD_NS).min(most_budget_ns(PERIOD_NS));
            self.give_budget(slot, wanted_ns);
        }
    }

    /// Changes a reservation's budget. If an increase does not fit, half or a quarter of the
    /// difference is tried.
    fn give_budget(&mut self, slot: u32, wanted_ns: u64) {
        let Some(had_ns) = self.by_bus.kept.get(&slot).map(|kept| kept.budget_ns) else { return };
        if had_ns.abs_diff(wanted_ns) * 100 <= had_ns.max(wanted_ns) * SAME_PERCENT {
            return;
        }
        let more_ns = wanted_ns.saturating_sub(had_ns);
        let steps = [wanted_ns, had_ns + more_ns / 2, had_ns + more_ns / 4];
        let count = if more_ns > 0 { steps.len() } else { 1 };
        let fits = steps[..count].iter().copied().find(|&step_ns| {
            let terms = self.possible(terms(step_ns));
            self.change(slot, terms).is_ok()
        });
        if let (Some(budget_ns), Some(kept)) = (fits, self.by_bus.kept.get_mut(&slot)) {
            kept.budget_ns = budget_ns;
        }
    }

    /// Once a second: budgets that were used up grow and are measured again, and threads that have
    /// exited are removed.
    pub fn follow_by_bus(&mut self, now_ns: u64) {
        self.by_bus.raised.retain(|&tid, raised| raised.is_current(tid));
        let mut grown = Vec::new();
        for (&slot, kept) in &mut self.by_bus.kept {
            let Some(is) = self.enforcer.as_ref().and_then(|enforcer| enforcer.measured(slot)) else {
                continue;
            };
            let (exhausted, got_ns, asked_ns) = kept.counted;
            kept.counted = (is.exhausted, is.got_ns, is.asked_ns);
            let (got_ns, asked_ns) = (is.got_ns.saturating_sub(got_ns), is.asked_ns.saturating_sub(asked_ns));
            let is_used_up = asked_ns > 0 && got_ns * 100 >= asked_ns * USED_UP_PERCENT;
            if is.exhausted > exhausted || is_used_up {
                kept.is_due = true;
                grown.push((slot, larger_budget_ns(kept.budget_ns, PERIOD_NS).max(GROWN_NS)));
            }
        }
        for (slot, budget_ns) in grown {
            self.give_budget(slot, budget_ns);
        }
        self.begin_measuring(now_ns);
    }

    fn begin_measuring(&mut self, now_ns: u64) {
        let busy = self.by_bus.kept.values().filter(|kept| kept.measuring.is_some()).count();
        let due = self.by_bus.kept.values_mut().filter(|kept| kept.is_due && kept.measuring.is_none());
        for kept in due.take(AT_ONCE.saturating_sub(busy)) {
            kept.measuring = RunTimeMeter::begin(kept.tid, now_ns);
            kept.is_due = false;
        }
    }
}
