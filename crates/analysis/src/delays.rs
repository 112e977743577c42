//! What delayed whom: the worst waits of the trace with their culprits, and how much each culprit delays each victim.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spry_timeline::{Holder, InterruptKind, Interrupted, Observer, TaskIndex, Timeline, WaitCause, Waited};
use spry_trace::event::{Event, Stack};
use spry_trace::{Group, Stamped};

use crate::analysis::{About, Analysis, Closing, Hook, Setup};
use crate::culprits::{code, each_stay};
use crate::findings::{Culprit, Delay, DelayCause, DelayEnd, Delays, Findings, Party, Slice};
use crate::select::Selection;

pub(crate) const ABOUT: About = About {
    name: "delays",
    tells: "the worst delays: who waited, who had the CPU meanwhile, and who delays whom how much in all",
    needs: &[],
    uses: &[
        (Group::Irq, "delays.worst[].culprits of interrupts"),
        (Group::Stack, "delays.worst[].culprit_stack"),
    ],
    hooks: &[Hook::Waited, Hook::Interrupted, Hook::Other],
    names_culprits: true,
    make: |setup| Box::new(Watch::new(setup)),
};

/// Stays looked at in one of the worst waits: as many as the time line remembers.
const STAYS_OF_WORST_MAX: usize = 256;
/// Interrupts remembered of each CPU.
const INTERRUPTS_MAX: usize = 128;

/// One of the worst waits, before tasks have their last names.
struct Draft {
    waited: Waited,
    /// Oldest first.
    stays: Vec<(u16, spry_timeline::Slice)>,
    interrupts: Vec<(InterruptKind, u64)>,
    stack: Option<Stack>,
}

impl Draft {
    fn wait_ns(&self) -> u64 {
        self.waited.end_ns - self.waited.start_ns
    }
}

#[derive(Clone, Copy)]
struct Span {
    kind: InterruptKind,
    start_ns: u64,
    end_ns: u64,
    own_ns: u64,
}

#[derive(Default)]
struct Cpu {
    interrupts: std::collections::VecDeque<Span>,
    /// The culprit that just left this CPU for a victim among the worst, whose stack may follow: the draft's start
    /// and victim, and the culprit.
    awaited: Option<(u64, TaskIndex, TaskIndex)>,
}

struct Watch {
    selection: Selection,
    worst_max: usize,
    /// In no order; the shortest wait among them is `threshold_ns` once there are `worst_max`.
    worst: Vec<Draft>,
    threshold_ns: u64,
    cpus: Vec<Cpu>,
}

impl Watch {
    fn new(setup: &Setup<'_>) -> Watch {
        Watch {
            selection: setup.selection.clone(),
            worst_max: setup.options.worst,
            worst: Vec::new(),
            threshold_ns: 0,
            cpus: Vec::new(),
        }
    }

    fn cpu(&mut self, cpu: u16) -> &mut Cpu {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        &mut self.cpus[at]
    }

    #[cold]
    fn consider(&mut self, now: &Timeline, waited: &Waited) {
        let task = now.task(waited.task);
        if self.worst_max == 0 || !self.selection.matches(task.tid(), now.tgid(waited.task), task.comm()) {
            return;
        }
        let mut stays = Vec::new();
        each_stay(now, waited, STAYS_OF_WORST_MAX, |cpu, slice| stays.push((cpu, slice)));
        stays.reverse();
        let cpu = self.cpu(waited.cpu);
        let mut interrupts: Vec<(InterruptKind, u64)> = Vec::new();
        for span in cpu.interrupts.iter().rev().take_while(|span| span.end_ns > waited.start_ns) {
            let own_ns =
                if span.start_ns < waited.start_ns { span.end_ns - waited.start_ns } else { span.own_ns };
            match interrupts.iter_mut().find(|known| known.0 == span.kind) {
                Some(known) => known.1 += own_ns,
                None => interrupts.push((span.kind, own_ns)),
            }
        }
        let last = stays.last().and_then(|(_, slice)| slice.holder.task());
        cpu.awaited = last.map(|culprit| (waited.start_ns, waited.task, culprit));
        self.worst.push(Draft { waited: *waited, stays, interrupts, stack: None });
        // Sorting now and then is cheaper than a heap: most waits are far under the threshold.
        if self.worst.len() >= 2 * self.worst_max {
            self.keep_worst();
        }
    }

    fn keep_worst(&mut self) {
        self.worst.sort_by_key(|draft| (Reverse(draft.wait_ns()), draft.waited.start_ns, draft.waited.task));
        self.worst.truncate(self.worst_max);
        if self.worst.len() == self.worst_max {
            self.threshold_ns = self.worst.last().map_or(0, Draft::wait_ns);
        }
    }
}

impl Observer for Watch {
    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        let wait_ns = waited.end_ns - waited.start_ns;
        if wait_ns > self.threshold_ns {
            self.consider(now, waited);
        }
    }

    fn interrupted(&mut self, _: &Timeline, span: &Interrupted) {
        let Interrupted { kind, start_ns, end_ns, own_ns, .. } = *span;
        let interrupts = &mut self.cpu(span.cpu).interrupts;
        if interrupts.len() == INTERRUPTS_MAX {
            interrupts.pop_front();
        }
        interrupts.push_back(Span { kind, start_ns, end_ns, own_ns });
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        let Event::Stack(stack) = &event.event else { return };
        let Some((start_ns, victim, culprit)) = self.cpu(event.cpu).awaited.take() else { return };
        if now.find(stack.tid) == Some(culprit) {
            let fits = |draft: &&mut Draft| draft.waited.start_ns == start_ns && draft.waited.task == victim;
            if let Some(draft) = self.worst.iter_mut().rev().find(fits) {
                draft.stack = Some(stack.clone());
            }
        }
    }
}

impl Analysis for Watch {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.keep_worst();
        let worst = self.worst.iter().map(|draft| draft.finding(closing)).collect();
        findings.delays = Some(Delays { worst, blame: closing.culprits.table(closing) });
    }
}

impl Draft {
    fn finding(&self, closing: &Closing<'_>) -> Delay {
        let waited = &self.waited;
        let mut by_holder: BTreeMap<u32, (Holder, u64)> = BTreeMap::new();
        for (_, stay) in &self.stays {
            by_holder.entry(code(stay.holder)).or_insert((stay.holder, 0)).1 += stay.end_ns - stay.start_ns;
        }
        let stays_ns: u64 = by_holder.values().map(|(_, ran_ns)| ran_ns).sum();
        let of_tasks =
            by_holder.values().map(|&(holder, ran_ns)| Culprit { party: closing.party(holder), ran_ns });
        let of_interrupts =
            self.interrupts.iter().map(|&(kind, ran_ns)| Culprit { party: Party::Interrupt(kind), ran_ns });
        let mut culprits: Vec<Culprit> = of_tasks.chain(of_interrupts).collect();
        let rest_ns = self.wait_ns().saturating_sub(stays_ns);
        if rest_ns > 0 {
            let party = if self.stays.len() < STAYS_OF_WORST_MAX { Party::Unknown } else { Party::Others };
            culprits.push(Culprit { party, ran_ns: rest_ns });
        }
        culprits.sort_by_key(|culprit| Reverse(culprit.ran_ns));
        let latest = &self.stays[self.stays.len().saturating_sub(Delay::SLICES_MAX)..];
        let slices = latest.iter().map(|&(cpu, stay)| Slice {
            cpu,
            start_ns: closing.since_start_ns(stay.start_ns),
            end_ns: closing.since_start_ns(stay.end_ns),
            party: closing.party(stay.holder),
        });
        Delay {
            victim: closing.who(waited.task),
            start_ns: closing.since_start_ns(waited.start_ns),
            wait_ns: self.wait_ns(),
            cpu: waited.cpu,
            cause: cause(waited.cause, closing),
            end: if waited.cut.end { DelayEnd::Cut } else { DelayEnd::Dispatched },
            culprits,
            slices: slices.collect(),
            culprit_stack: self
                .stack
                .iter()
                .flat_map(|stack| &stack.frames)
                .map(|name| (**name).into())
                .collect(),
        }
    }
}

fn cause(cause: WaitCause, closing: &Closing<'_>) -> DelayCause {
    let who = |holder: Holder| holder.task().map(|task| closing.who(task));
    match cause {
        WaitCause::Woken { by, context } => DelayCause::Woken { waker: who(by), context },
        WaitCause::Preempted { by } => DelayCause::Preempted { by: who(by) },
        WaitCause::New => DelayCause::New,
        WaitCause::Unknown => DelayCause::Unknown,
    }
}
