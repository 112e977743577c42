//! The parts of wake-up latency: deadline, handler, waking, run queue, need-resched and switch; and its
//! culprits (deadline to CPU: Etsion, Tsafrir, Feitelson 2003, section 7).

use spry_timeline::{Observer, Switched, Timeline, WaitCause, Waited, Waking};
use spry_trace::event::Event;
use spry_trace::{Group, Stamped};

use crate::analysis::{About, Analysis, Closing, Counter, Hook, Parts, PerTask, Setup};
use crate::batch::{After, Batch, Fill, Wait, Whole};
use crate::culprits::{Culprits, Stay, put_stays};
use crate::expiry::Expiry;
use crate::findings::{Culprit, Findings, WakeupFinding, WakeupParts};
use crate::histogram::{Budget, Histogram, Tally};
use crate::select::Selection;

pub(crate) const ABOUT: About = About {
    name: "wakeup",
    tells: "wake-up latency split into timer, expiry, run queue, need-resched and switch, \
            with what ran in between",
    needs: &[],
    uses: &[
        (Group::Timer, "wakeup.timer, wakeup.expiry, wakeup.deadline_to_switch"),
        (Group::Resched, "wakeup.resched, wakeup.switch"),
    ],
    hooks: &[Hook::Switched, Hook::Waking, Hook::Waited, Hook::Waits, Hook::Other],
    names_culprits: true,
    make: |setup| {
        let observer = Wakeups::new(setup);
        let is_counting = observer.selected.is_none();
        let tells_more = observer.has_timer || observer.has_resched || !is_counting;
        Parts {
            // Without these groups, and without a selection, the observer would find nothing.
            observer: if tells_more { Some(Box::new(observer)) } else { None },
            counter: if is_counting { Some(Box::new(Totals::new())) } else { None },
        }
    },
};

#[derive(Clone, Copy, Default)]
struct CpuMoments {
    expiry: Option<Expiry>,
    resched_ns: u64,
    /// The times of the CPU's latest switch and of the switch before it, ns.
    switch_ns: u64,
    earlier_switch_ns: u64,
}

/// The parts that any trace has.
#[derive(Default)]
struct Phases {
    enqueue: Tally,
    total: Tally,
}

/// The parts that need the groups `timer` or `resched`.
#[derive(Default)]
struct More {
    /// The latest waking by a timer: its time, ns, and the timer.
    by_timer: Option<(u64, Expiry)>,
    timer: Tally,
    expiry: Tally,
    resched: Tally,
    switch: Tally,
}

/// Measures the parts that any trace has.
struct Totals {
    tasks: PerTask<Phases>,
    enqueue: Histogram,
    total: Histogram,
    budget: Budget,
}

impl Totals {
    fn new() -> Totals {
        let (enqueue, total) = (Histogram::dense(), Histogram::dense());
        Totals { tasks: PerTask::default(), enqueue, total, budget: Budget::new(0) }
    }

    #[inline]
    fn measure(&mut self, wait: &Wait) {
        let budget = &mut self.budget;
        let own = self.tasks.at(wait.task);
        self.enqueue.record(wait.enqueue_ns, budget);
        own.enqueue.add(wait.enqueue_ns);
        let total_ns = wait.enqueue_ns + wait.wait_ns;
        self.total.record(total_ns, budget);
        own.total.add(total_ns);
    }

    fn put(mut self, culprits: Vec<Culprit>, closing: &Closing<'_>, findings: &mut Findings) {
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let Phases { enqueue, total } = self.tasks.take(index);
            finding.wakeup = Some(Box::new(WakeupParts { enqueue, total, ..WakeupParts::default() }));
        }
        let (enqueue, total) = (self.enqueue, self.total);
        findings.wakeup = Some(WakeupFinding { enqueue, total, culprits, ..WakeupFinding::default() });
    }
}

/// The parts that any trace has, and the culprits, of the selected tasks alone. Batches do not tell which
/// tasks are selected.
struct Selected {
    selection: Selection,
    totals: Totals,
    culprits: Culprits,
    stays: Batch<Stay>,
}

/// Whether a task is selected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Selected,
    Other,
}

impl Selected {
    fn new(selection: Selection) -> Selected {
        Selected { selection, totals: Totals::new(), culprits: Culprits::default(), stays: Batch::new() }
    }

    fn waited(&mut self, now: &Timeline, waited: &Waited) -> Choice {
        if !self.selection.matches(now, waited.task) {
            return Choice::Other;
        }
        if put_stays(now, waited, &mut self.stays) == Fill::Full {
            self.count();
        }
        if is_known(waited) {
            self.totals.measure(&waited.into());
        }
        Choice::Selected
    }

    #[cold]
    fn count(&mut self) {
        let mut stays = self.stays.put_away();
        self.culprits.count(&stays);
        stays.clear();
        self.stays.recycle(stays);
    }

    fn finish(mut self, closing: &Closing<'_>, findings: &mut Findings) {
        self.count();
        let culprits = self.culprits.of_wakeups(closing);
        self.totals.put(culprits, closing, findings);
    }
}

/// Measures the parts that need the groups `timer` or `resched`, or a selection.
struct Wakeups {
    /// `None` if all tasks are selected.
    selected: Option<Selected>,
    has_timer: bool,
    has_resched: bool,
    cpus: Vec<CpuMoments>,
    tasks: PerTask<Option<Box<More>>>,
    overall: WakeupFinding,
    budget: Budget,
}

impl Wakeups {
    fn new(setup: &Setup<'_>) -> Wakeups {
        let has_timer = setup.header.groups.contains(Group::Timer);
        let has_resched = setup.header.groups.contains(Group::Resched);
        let timer = || has_timer.then(Histogram::dense);
        let resched = || has_resched.then(Histogram::dense);
        let overall = WakeupFinding {
            timer: timer(),
            expiry: timer(),
            resched: resched(),
            switch: resched(),
            deadline_to_switch: timer(),
            ..WakeupFinding::default()
        };
        let is_all = setup.selection.tasks.is_none();
        Wakeups {
            selected: (!is_all).then(|| Selected::new(setup.selection.clone())),
            has_timer,
            has_resched,
            cpus: vec![CpuMoments::default(); usize::from(setup.header.cpus)],
            tasks: PerTask::default(),
            overall,
            budget: Budget::new(0),
        }
    }

    #[inline]
    fn cpu(&mut self, cpu: u16) -> &mut CpuMoments {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, CpuMoments::default());
        }
        &mut self.cpus[at]
    }

    fn measure(&mut self, waited: &Waited) {
        let (waking_ns, switch_ns) = (waited.waking_ns, waited.end_ns);
        let cpu = *self.cpu(waited.cpu);
        let (overall, budget) = (&mut self.overall, &mut self.budget);
        let own = self.tasks.at(waited.task).get_or_insert_default();
        // Need-resched counts if it was set after the CPU's switch before the present switch. If it was set
        // before the task was woken, it counts as set at that waking.
        if let (Some(resched), Some(switch)) = (&mut overall.resched, &mut overall.switch) {
            if cpu.resched_ns > cpu.earlier_switch_ns {
                let set_ns = cpu.resched_ns.max(waking_ns);
                resched.record(set_ns - waking_ns, budget);
                own.resched.add(set_ns - waking_ns);
                switch.record(switch_ns - set_ns, budget);
                own.switch.add(switch_ns - set_ns);
            }
        }
        let by_timer = own.by_timer.take().filter(|by_timer| by_timer.0 == waking_ns);
        if let (Some((_, expiry)), Some(timer), Some(handler), Some(whole)) =
            (by_timer, &mut overall.timer, &mut overall.expiry, &mut overall.deadline_to_switch)
        {
            let late_ns = expiry.handler_ns.saturating_sub(expiry.deadline_ns);
            timer.record(late_ns, budget);
            own.timer.add(late_ns);
            handler.record(waking_ns - expiry.handler_ns, budget);
            own.expiry.add(waking_ns - expiry.handler_ns);
            whole.record(switch_ns.saturating_sub(expiry.deadline_ns), budget);
        }
    }
}

impl Observer for Wakeups {
    fn switched(&mut self, _: &Timeline, switched: &Switched) {
        let cpu = self.cpu(switched.cpu);
        cpu.earlier_switch_ns = cpu.switch_ns;
        cpu.switch_ns = switched.time_ns;
    }

    fn waking(&mut self, now: &Timeline, waking: &Waking) {
        if !self.has_timer {
            return;
        }
        let Some(expiry) = self.cpu(waking.cpu).expiry else { return };
        if expiry.causes(waking, now.task(waking.task).tid()) {
            let more = self.tasks.at(waking.task).get_or_insert_default();
            more.by_timer = Some((waking.time_ns, expiry));
        }
    }

    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        let choice = self.selected.as_mut().map_or(Choice::Selected, |chosen| chosen.waited(now, waited));
        if choice == Choice::Selected && is_known(waited) {
            self.measure(waited);
        }
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        match &event.event {
            Event::TimerExpire(timer) => {
                self.cpu(event.cpu).expiry = Some(Expiry::of(timer, now.now_ns()));
            }
            Event::NeedResched(need) => {
                let cpu = self.cpu(need.target_cpu);
                // Only the first need-resched since the CPU's latest switch counts.
                if cpu.resched_ns <= cpu.switch_ns {
                    cpu.resched_ns = now.now_ns();
                }
            }
            _ => {}
        }
    }
}

/// Whether the wait came after a wake-up and was seen from its start to its end.
fn is_known(waited: &Waited) -> bool {
    waited.cut.is_whole() && matches!(waited.cause, WaitCause::Woken { .. })
}

impl Counter for Totals {
    fn waits(&mut self, waits: &[Wait]) {
        let known = |wait: &&Wait| wait.whole == Whole::Yes && wait.after == After::Wakeup;
        waits.iter().filter(known).for_each(|wait| self.measure(wait));
    }

    fn finish(self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.put(closing.culprits.of_wakeups(closing), closing, findings);
    }
}

impl Analysis for Wakeups {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        if let Some(selected) = self.selected.take() {
            selected.finish(closing, findings);
        }
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let More { timer, expiry, resched, switch, .. } =
                self.tasks.take(index).map_or_else(More::default, |more| *more);
            let parts = finding.wakeup.get_or_insert_default();
            parts.timer = self.has_timer.then_some(timer);
            parts.expiry = self.has_timer.then_some(expiry);
            parts.resched = self.has_resched.then_some(resched);
            parts.switch = self.has_resched.then_some(switch);
        }
        let counted = findings.wakeup.take().unwrap_or_default();
        let WakeupFinding { enqueue, total, culprits, .. } = counted;
        findings.wakeup = Some(WakeupFinding { enqueue, total, culprits, ..self.overall });
    }
}
