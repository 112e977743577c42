//! The parts of wake-up latency: a timer's deadline, its handler, waking, the run queue, need-resched, the switch;
//! and who had the CPU in between (deadline to CPU: Etsion, Tsafrir, Feitelson 2003, section 7).

use spry_timeline::{Observer, Switched, Timeline, WaitCause, Waited, Waking};
use spry_trace::event::{Context, Event};
use spry_trace::{Group, Stamped, Tid};

use crate::analysis::{About, Analysis, Closing, Hook, PerTask, Setup};
use crate::batch::{After, Wait, Whole};
use crate::findings::{Findings, WakeupFinding, WakeupParts};
use crate::histogram::{Budget, Histogram, Tally};

pub(crate) const ABOUT: About = About {
    name: "wakeup",
    tells: "wake-up latency split into timer, expiry, run queue, need-resched and switch, with what ran in between",
    needs: &[],
    uses: &[
        (Group::Timer, "wakeup.timer, wakeup.expiry, wakeup.deadline_to_switch"),
        (Group::Resched, "wakeup.resched, wakeup.switch"),
    ],
    hooks: &[Hook::Switched, Hook::Waking, Hook::Waited, Hook::Waits, Hook::Other],
    names_culprits: true,
    make: |setup| Box::new(Wakeups::new(setup)),
};

/// A waking in interrupt context this long after a timer's handler began is not that timer's, ns.
const HANDLER_MAX_NS: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Expiry {
    handler_ns: u64,
    deadline_ns: u64,
    sleeper: Tid,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    expiry: Option<Expiry>,
    resched_ns: u64,
    /// The latest switch, and the one before it.
    switch_ns: u64,
    earlier_switch_ns: u64,
}

#[derive(Default)]
struct Task {
    enqueue: Tally,
    total: Tally,
    /// Only with the groups `timer` or `resched`.
    more: Option<Box<More>>,
}

#[derive(Default)]
struct More {
    /// The latest waking by a timer: when, and which.
    by_timer: Option<(u64, Expiry)>,
    timer: Tally,
    expiry: Tally,
    resched: Tally,
    switch: Tally,
}

struct Wakeups {
    has_timer: bool,
    has_resched: bool,
    cpus: Vec<Cpu>,
    tasks: PerTask<Task>,
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
            enqueue: Histogram::dense(),
            resched: resched(),
            switch: resched(),
            total: Histogram::dense(),
            deadline_to_switch: timer(),
            culprits: Vec::new(),
        };
        Wakeups {
            has_timer,
            has_resched,
            cpus: vec![Cpu::default(); usize::from(setup.header.cpus)],
            tasks: PerTask::default(),
            overall,
            budget: Budget::new(0),
        }
    }

    #[inline]
    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, Cpu::default());
        }
        &mut self.cpus[at]
    }

    /// The parts that any trace has.
    #[inline]
    fn measure(&mut self, wait: &Wait) {
        let (overall, budget) = (&mut self.overall, &mut self.budget);
        let own = self.tasks.at(wait.task);
        overall.enqueue.record(wait.enqueue_ns, budget);
        own.enqueue.add(wait.enqueue_ns);
        let total_ns = wait.enqueue_ns + wait.wait_ns;
        overall.total.record(total_ns, budget);
        own.total.add(total_ns);
    }

    /// The parts that take the groups `timer` and `resched`.
    fn measure_more(&mut self, waited: &Waited) {
        let (waking_ns, switch_ns) = (waited.waking_ns, waited.end_ns);
        let cpu = *self.cpu(waited.cpu);
        let (overall, budget) = (&mut self.overall, &mut self.budget);
        let own = self.tasks.at(waited.task).more.get_or_insert_default();
        // Set since the CPU's switch before this one; already set when the task was woken counts from there.
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
        if !self.has_timer || waking.context == Context::Task {
            return;
        }
        let Some(expiry) = self.cpu(waking.cpu).expiry else { return };
        // A timer that names its sleeper wakes only that one.
        let is_meant = expiry.sleeper.is_idle() || expiry.sleeper == now.task(waking.task).tid();
        if is_meant && waking.time_ns - expiry.handler_ns <= HANDLER_MAX_NS {
            let more = self.tasks.at(waking.task).more.get_or_insert_default();
            more.by_timer = Some((waking.time_ns, expiry));
        }
    }

    fn waited(&mut self, _: &Timeline, waited: &Waited) {
        if (self.has_timer || self.has_resched) && is_known(waited) {
            self.measure_more(waited);
        }
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        match &event.event {
            Event::TimerExpire(timer) => {
                let (handler_ns, deadline_ns) = (now.now_ns(), timer.deadline_ns);
                self.cpu(event.cpu).expiry = Some(Expiry { handler_ns, deadline_ns, sleeper: timer.tid });
            }
            Event::NeedResched(need) => {
                let cpu = self.cpu(need.target_cpu);
                // The first one since the CPU's latest switch.
                if cpu.resched_ns <= cpu.switch_ns {
                    cpu.resched_ns = now.now_ns();
                }
            }
            _ => {}
        }
    }
}

/// Whether the wait was one after a wake-up, seen from its start to its end.
fn is_known(waited: &Waited) -> bool {
    waited.cut.is_whole() && matches!(waited.cause, WaitCause::Woken { .. })
}

impl Analysis for Wakeups {
    fn waits(&mut self, waits: &[Wait]) {
        let known = |wait: &&Wait| wait.whole == Whole::Yes && wait.after == After::Wakeup;
        waits.iter().filter(known).for_each(|wait| self.measure(wait));
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.overall.culprits = closing.culprits.of_wakeups(closing);
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let Task { enqueue, total, more } = self.tasks.take(index);
            let more = more.unwrap_or_default();
            finding.wakeup = Some(Box::new(WakeupParts {
                timer: self.has_timer.then_some(more.timer),
                expiry: self.has_timer.then_some(more.expiry),
                enqueue,
                resched: self.has_resched.then_some(more.resched),
                switch: self.has_resched.then_some(more.switch),
                total,
            }));
        }
        findings.wakeup = Some(self.overall);
    }
}
