//! The parts of wake-up latency: a timer's deadline, its handler, waking, the run queue, need-resched, the switch;
//! and who had the CPU in between (deadline to CPU: Etsion, Tsafrir, Feitelson 2003, section 7).

use spry_timeline::{Observer, Switched, Timeline, WaitCause, Waited, Waking};
use spry_trace::event::{Context, Event};
use spry_trace::{Group, Stamped, Tid};

use crate::analysis::{About, Analysis, Closing, Hook, PerTask, Setup};
use crate::findings::{Findings, WakeupFinding, WakeupParts};
use crate::histogram::{Budget, Histogram};

pub(crate) const ABOUT: About = About {
    name: "wakeup",
    tells: "wake-up latency split into timer, expiry, run queue, need-resched and switch, with what ran in between",
    needs: &[],
    uses: &[
        (Group::Timer, "wakeup.timer, wakeup.expiry, wakeup.deadline_to_switch"),
        (Group::Resched, "wakeup.resched, wakeup.switch"),
    ],
    hooks: &[Hook::Switched, Hook::Waking, Hook::Waited, Hook::Other],
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
    /// The latest waking by a timer: when, and which.
    by_timer: Option<(u64, Expiry)>,
    parts: Option<Box<WakeupParts>>,
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

    fn measure(&mut self, waited: &Waited) {
        let (waking_ns, enqueued_ns, switch_ns) = (waited.waking_ns, waited.start_ns, waited.end_ns);
        let cpu = *self.cpu(waited.cpu);
        let parts = &mut self.overall;
        let task = self.tasks.at(waited.task);
        let own = task.parts.get_or_insert_default();
        parts.enqueue.record(enqueued_ns - waking_ns, &mut self.budget);
        own.enqueue.add(enqueued_ns - waking_ns);
        parts.total.record(switch_ns - waking_ns, &mut self.budget);
        own.total.add(switch_ns - waking_ns);
        // Set since the CPU's switch before this one; already set when the task was woken counts from there.
        if let (Some(resched), Some(switch)) = (&mut parts.resched, &mut parts.switch) {
            if cpu.resched_ns > cpu.earlier_switch_ns {
                let set_ns = cpu.resched_ns.max(waking_ns);
                resched.record(set_ns - waking_ns, &mut self.budget);
                own.resched.get_or_insert_default().add(set_ns - waking_ns);
                switch.record(switch_ns - set_ns, &mut self.budget);
                own.switch.get_or_insert_default().add(switch_ns - set_ns);
            }
        }
        let by_timer = task.by_timer.take().filter(|by_timer| by_timer.0 == waking_ns);
        if let (Some((_, expiry)), Some(timer), Some(handler), Some(whole)) =
            (by_timer, &mut parts.timer, &mut parts.expiry, &mut parts.deadline_to_switch)
        {
            let late_ns = expiry.handler_ns.saturating_sub(expiry.deadline_ns);
            timer.record(late_ns, &mut self.budget);
            own.timer.get_or_insert_default().add(late_ns);
            handler.record(waking_ns - expiry.handler_ns, &mut self.budget);
            own.expiry.get_or_insert_default().add(waking_ns - expiry.handler_ns);
            whole.record(switch_ns.saturating_sub(expiry.deadline_ns), &mut self.budget);
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
            self.tasks.at(waking.task).by_timer = Some((waking.time_ns, expiry));
        }
    }

    fn waited(&mut self, _: &Timeline, waited: &Waited) {
        if waited.cut.is_whole() && matches!(waited.cause, WaitCause::Woken { .. }) {
            self.measure(waited);
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

impl Analysis for Wakeups {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.overall.culprits = closing.blame.of_wakeups(closing);
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let mut parts = self.tasks.take(index).parts.unwrap_or_default();
            // A group that is there but told nothing of this task is no missing group.
            if self.has_timer {
                parts.timer.get_or_insert_default();
                parts.expiry.get_or_insert_default();
            }
            if self.has_resched {
                parts.resched.get_or_insert_default();
                parts.switch.get_or_insert_default();
            }
            finding.wakeup = Some(parts);
        }
        findings.wakeup = Some(self.overall);
    }
}
