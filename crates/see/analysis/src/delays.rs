//! Delays: the worst waits of the trace with their culprits, and the time for which each culprit
//! delays each victim.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use spry_timeline::{
    Holder, InterruptKind, Interrupted, Migrated, Observer, TaskIndex, TaskState, Timeline, TimelineCpu,
    WaitCause, Waited,
};
use spry_trace::event::{Comm, Event, Irq, Limit, Softirq, Stack};
use spry_trace::{Group, Stamped};

use crate::analysis::{About, Analysis, Closing, Hook, Parts, Setup};
use crate::findings::{
    Bound, Culprit, Delay, DelayCause, DelayEnd, Delays, Findings, IdleReason, NameShare, Party, Slice,
};
use crate::history::{self, History, Span, Sums};
use crate::idle::IdleStates;
use crate::select::Selection;

pub(crate) const ABOUT: About = About {
    name: "delays",
    tells: "the worst delays: the task that waited, and what had the CPU meanwhile; \
            how much each cause delays each task in all",
    needs: &[],
    uses: &[
        (Group::Irq, "delays.worst[].culprits of interrupts"),
        (Group::Stack, "delays.worst[].culprit_stack"),
        (Group::Idle, "delays.worst[].idle"),
    ],
    hooks: &[Hook::Waited, Hook::Migrated, Hook::Interrupted, Hook::Other],
    names_culprits: true,
    make: |setup| Parts::observing(WorstDelays::new(setup)),
};

/// The number of waits that end on a CPU before its stays are read again. Hardly more than two stays go with
/// one wait, and the time line remembers 256 stays.
const WAITS_UNSEEN_MAX: u32 = 96;
/// The most moves of the waiting task that are kept of one wait.
const MOVES_MAX: usize = 32;

/// One of the worst waits, before tasks have their last names.
struct Draft {
    waited: Waited,
    /// The holders of a CPU during the wait, each with its time; in no order until the end. The numbers stand
    /// for a task, for idle or for an unknown task.
    ran: Box<[(u32, u64)]>,
    /// The time of tasks that the history no longer names, ns.
    others_ns: u64,
    /// The part of the time above that interrupts took, by their numbers.
    interrupts: Box<[(u32, u64)]>,
    /// The latest stays, with their CPUs, oldest first.
    latest: Vec<(u16, Span)>,
    /// Why the CPU was idle, if it was; `None` if the trace lacks the group `idle`.
    idle: Option<IdleReason>,
    bound: Option<Bound>,
    stack: Option<Stack>,
}

impl Draft {
    /// A wait of a throttled task: it was not allowed to run, whichever task had the CPU.
    fn without_culprits(waited: &Waited) -> Draft {
        let (ran, interrupts) = (Box::default(), Box::default());
        let latest = Vec::new();
        let (idle, bound, stack) = (None, None, None);
        Draft { waited: *waited, ran, others_ns: 0, interrupts, latest, idle, bound, stack }
    }

    fn wait_ns(&self) -> u64 {
        self.waited.end_ns - self.waited.start_ns
    }
}

#[derive(Default)]
struct CpuQueue {
    stays: History,
    interrupts: History,
    idle: IdleStates,
    /// The number of waits that have ended on this CPU since its stays were last read.
    waits_unseen: u32,
    /// The start and the victim of the latest draft on this CPU, and its last culprit. The culprit just left
    /// this CPU: an event with its stack may follow.
    awaited: Option<(u64, TaskIndex, TaskIndex)>,
}

struct WorstDelays {
    selection: Selection,
    worst_max: usize,
    /// Whether the trace has the group `idle`.
    has_idle: bool,
    /// The worst waits so far, in no order; once there are `worst_max`, the shortest of them took
    /// `threshold_ns`.
    worst: Vec<Draft>,
    threshold_ns: u64,
    cpus: Vec<CpuQueue>,
    sums: Sums,
    /// The moves of waiting tasks: the CPUs that they left, and the times of the moves, ns.
    moves: HashMap<TaskIndex, Vec<(u16, u64)>>,
}

impl WorstDelays {
    fn new(setup: &Setup<'_>) -> WorstDelays {
        WorstDelays {
            selection: setup.selection.clone(),
            worst_max: setup.options.worst,
            has_idle: setup.header.groups.contains(Group::Idle),
            worst: Vec::new(),
            threshold_ns: 0,
            cpus: Vec::new(),
            sums: Sums::new(setup.header.cpus),
            moves: HashMap::new(),
        }
    }

    fn cpu(&mut self, cpu: u16) -> &mut CpuQueue {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, CpuQueue::default);
        }
        &mut self.cpus[at]
    }

    /// Takes the stays of a CPU that the time line remembers and the CPU's history does not have yet.
    #[cold]
    fn look(&mut self, now: &Timeline, cpu: u16) {
        self.cpu(cpu).waits_unseen = 0;
        let Some(known) = now.cpus().get(usize::from(cpu)) else { return };
        let stays = &mut self.cpus[usize::from(cpu)].stays;
        let seen_ns = stays.end_ns();
        let is_new = |back: &usize| known.recent(*back).is_some_and(|stay| stay.end_ns > seen_ns);
        let new = (0..).take_while(is_new).count();
        for stay in (0..new).rev().filter_map(|back| known.recent(back)) {
            let span = Span { whose: number(stay.holder), start_ns: stay.start_ns, end_ns: stay.end_ns };
            stays.push(span, &mut self.sums);
        }
    }

    /// The CPUs of the queues in which a task waited, each with the start and the end of that
    /// part of the wait.
    fn queues(&mut self, waited: &Waited) -> Vec<(u16, u64, u64)> {
        let mut moves = self.moves.remove(&waited.task).unwrap_or_default();
        moves.retain(|&(_, moved_ns)| (waited.start_ns..waited.end_ns).contains(&moved_ns));
        let mut since_ns = waited.start_ns;
        let mut queues: Vec<(u16, u64, u64)> = Vec::with_capacity(moves.len() + 1);
        for (cpu, to_ns) in moves.into_iter().chain([(waited.cpu, waited.end_ns)]) {
            queues.push((cpu, since_ns, to_ns));
            since_ns = to_ns;
        }
        queues
    }

    #[cold]
    fn consider(&mut self, now: &Timeline, waited: &Waited) {
        if self.worst_max == 0 || !self.selection.matches(now, waited.task) {
            return;
        }
        if matches!(waited.cause, WaitCause::Throttled { .. }) {
            self.moves.remove(&waited.task);
            self.push(Draft::without_culprits(waited));
            return;
        }
        let mut latest = Vec::new();
        let queues = self.queues(waited);
        // This must come first: a history that grows uses the sums, too.
        queues.iter().for_each(|&(cpu, ..)| self.look(now, cpu));
        for &(cpu, from_ns, to_ns) in &queues {
            let stays = &self.cpus[usize::from(cpu)].stays;
            stays.sum(from_ns, to_ns, &mut self.sums);
            latest.extend(stays.latest(from_ns, to_ns, Delay::SLICES_MAX).map(|span| (cpu, span)));
            // The CPU of the task that waited is just switching; the other CPUs each have a holder.
            let held = now.cpus().get(usize::from(cpu)).filter(|_| cpu != waited.cpu);
            let open = held.and_then(|held| {
                let whose = number(held.holder());
                Span { whose, start_ns: held.since_ns(), end_ns: now.now_ns() }.within(from_ns, to_ns)
            });
            if let Some(open) = open.filter(|open| open.whose != NOBODY_KNOWN) {
                self.sums.add(open.whose, open.end_ns - open.start_ns);
                latest.push((cpu, open));
            }
        }
        latest.drain(..latest.len().saturating_sub(Delay::SLICES_MAX));
        let (ran, others_ns) = self.sums.take();
        for &(cpu, from_ns, to_ns) in &queues {
            self.cpus[usize::from(cpu)].interrupts.sum(from_ns, to_ns, &mut self.sums);
        }
        let (interrupts, _) = self.sums.take();
        let last = latest.last().and_then(|(_, span)| task_of(now, span.whose));
        self.cpu(waited.cpu).awaited = last.map(|culprit| (waited.start_ns, waited.task, culprit));
        let idle = queues.last().filter(|_| self.has_idle).map(|&queue| self.idle_reason(now, queue));
        let bound = bound(now, waited, &queues);
        self.push(Draft { waited: *waited, ran, others_ns, interrupts, latest, idle, bound, stack: None });
    }

    /// Why a CPU was idle while a task waited in its queue.
    fn idle_reason(&self, now: &Timeline, (cpu, start_ns, end_ns): (u16, u64, u64)) -> IdleReason {
        let at = usize::from(cpu);
        let (Some(known), Some(of_cpu)) = (now.cpus().get(at), self.cpus.get(at)) else {
            return IdleReason::Unknown;
        };
        let mut stays = (0..).map_while(|back| known.recent(back));
        match stays.find(|stay| stay.start_ns <= start_ns) {
            // No event of a CPU is missing within a stay.
            Some(stay) if stay.holder == Holder::Idle && stay.end_ns > start_ns => {
                of_cpu.idle.reason(start_ns, end_ns.min(stay.end_ns))
            }
            Some(_) | None => IdleReason::Unknown,
        }
    }

    fn push(&mut self, draft: Draft) {
        self.worst.push(draft);
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

impl Observer for WorstDelays {
    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        let cpu = self.cpu(waited.cpu);
        cpu.waits_unseen += 1;
        if cpu.waits_unseen == WAITS_UNSEEN_MAX {
            self.look(now, waited.cpu);
        }
        if waited.end_ns - waited.start_ns > self.threshold_ns {
            self.consider(now, waited);
        } else if waited.moved.is_some() {
            self.moves.remove(&waited.task);
        }
    }

    fn migrated(&mut self, now: &Timeline, migrated: &Migrated) {
        if now.task(migrated.task).state() == TaskState::Waiting {
            let moves = self.moves.entry(migrated.task).or_default();
            if moves.len() == MOVES_MAX {
                moves.remove(0);
            }
            moves.push((migrated.from_cpu, now.now_ns()));
        }
    }

    fn interrupted(&mut self, _: &Timeline, span: &Interrupted) {
        let at = usize::from(span.cpu);
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, CpuQueue::default);
        }
        // Only the interrupt's own time is kept here: interrupts inside it are kept as spans of their own.
        let start_ns = span.end_ns - span.own_ns.min(span.end_ns);
        let span = Span { whose: interrupt_number(span.kind), start_ns, end_ns: span.end_ns };
        self.cpus[at].interrupts.push(span, &mut self.sums);
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        let stack = match &event.event {
            Event::IdleState(state) => return self.cpu(event.cpu).idle.push(event.time_ns, *state),
            Event::Lost(_) => return self.cpu(event.cpu).idle.lose(event.time_ns),
            Event::Stack(stack) => stack,
            _ => return,
        };
        let Some((start_ns, victim, culprit)) = self.cpu(event.cpu).awaited.take() else { return };
        if now.find(stack.tid) == Some(culprit) {
            let fits = |draft: &&mut Draft| draft.waited.start_ns == start_ns && draft.waited.task == victim;
            if let Some(draft) = self.worst.iter_mut().rev().find(fits) {
                draft.stack = Some(stack.clone());
            }
        }
    }
}

impl Analysis for WorstDelays {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.keep_worst();
        for draft in &mut self.worst {
            history::sort(&mut draft.ran);
            history::sort(&mut draft.interrupts);
        }
        let worst = self.worst.iter().map(|draft| draft.finding(closing)).collect();
        findings.delays = Some(Delays { worst, blame: closing.culprits.table(closing) });
    }
}

impl Draft {
    fn finding(&self, closing: &Closing<'_>) -> Delay {
        let waited = &self.waited;
        let culprits = self.culprits(closing);
        Delay {
            victim: closing.who(waited.task),
            start_ns: closing.since_start_ns(waited.start_ns),
            wait_ns: self.wait_ns(),
            cpu: waited.cpu,
            cause: cause(waited.cause, closing),
            end: if waited.cut.end { DelayEnd::Cut } else { DelayEnd::Dispatched },
            idle: self.idle.and_then(|reason| within_idle(reason, &culprits)),
            bound: self.bound,
            culprits,
            names: self.names(closing),
            slices: self.latest.iter().map(|&(cpu, span)| slice(cpu, span, closing)).collect(),
            culprit_stack: self
                .stack
                .iter()
                .flat_map(|stack| &stack.frames)
                .map(|name| (**name).into())
                .collect(),
        }
    }

    fn culprits(&self, closing: &Closing<'_>) -> Vec<Culprit> {
        if matches!(self.waited.cause, WaitCause::Throttled { .. }) {
            return vec![Culprit { party: Party::Quota, ran_ns: self.wait_ns() }];
        }
        let mut others_ns = self.others_ns;
        let mut unknown_ns = self.wait_ns().saturating_sub(others_ns);
        let mut culprits = Vec::new();
        for &(whose, ran_ns) in &self.ran {
            let party = party(closing, whose);
            if party != Party::Unknown {
                unknown_ns = unknown_ns.saturating_sub(ran_ns);
                match culprits.len() < Delay::CULPRITS_MAX {
                    true => culprits.push(Culprit { party, ran_ns }),
                    false => others_ns += ran_ns,
                }
            }
        }
        let rest = [(Party::Others, others_ns), (Party::Unknown, unknown_ns)];
        culprits.extend(rest.map(|(party, ran_ns)| Culprit { party, ran_ns }));
        culprits.extend(
            self.interrupts
                .iter()
                .map(|&(whose, ran_ns)| Culprit { party: Party::Interrupt(interrupt_of(whose)), ran_ns }),
        );
        culprits.retain(|culprit| culprit.ran_ns > 0);
        culprits.sort_by_key(|culprit| Reverse(culprit.ran_ns));
        culprits
    }

    fn names(&self, closing: &Closing<'_>) -> Vec<NameShare> {
        let mut by_name: BTreeMap<Comm, (u32, u64)> = BTreeMap::new();
        for &(whose, ran_ns) in &self.ran {
            if let Some(task) = task_of(closing.timeline, whose) {
                let share = by_name.entry(closing.who(task).comm).or_default();
                *share = (share.0 + 1, share.1 + ran_ns);
            }
        }
        let share = |(comm, (tasks, ran_ns))| NameShare { comm, tasks, ran_ns };
        let mut names: Vec<NameShare> = by_name.into_iter().map(share).collect();
        names.sort_by_key(|name| Reverse(name.ran_ns));
        names.truncate(Delay::NAMES_MAX);
        names
    }
}

/// For a task that is bound to some of the CPUs: the CPU without the task in its queue that was idle longest
/// while the task waited.
fn bound(now: &Timeline, waited: &Waited, queues: &[(u16, u64, u64)]) -> Option<Bound> {
    let cpus = now.task(waited.task).bound_to()?.get();
    // At the end of the trace no CPU has a holder any more.
    let is_used = |cpu: &&TimelineCpu| cpu.holder() != Holder::Unknown || cpu.recent(0).is_some();
    let used = now.cpus().iter().filter(is_used).count();
    if usize::from(cpus) >= used {
        return None;
    }
    let (from_ns, to_ns) = (waited.start_ns, waited.end_ns);
    let idle = |cpu: &TimelineCpu| -> u64 {
        let stays = (0..).map_while(|back| cpu.recent(back)).take_while(|stay| stay.end_ns > from_ns);
        let stays = stays.filter(|stay| stay.holder == Holder::Idle).map(|stay| (stay.start_ns, stay.end_ns));
        let open = (cpu.holder() == Holder::Idle).then(|| (cpu.since_ns(), now.now_ns()));
        let within = |(start_ns, end_ns): (u64, u64)| end_ns.min(to_ns).saturating_sub(start_ns.max(from_ns));
        stays.chain(open).map(within).sum()
    };
    let others = (0..).zip(now.cpus()).filter(|(cpu, _)| queues.iter().all(|queue| queue.0 != *cpu));
    let (idle_cpu, idle_ns) = others.map(|(cpu, known)| (cpu, idle(known))).max_by_key(|&(_, ns)| ns)?;
    (idle_ns > 0).then_some(Bound { cpus, idle_cpu, idle_ns })
}

/// The reason why a CPU was idle, if it was.
fn within_idle(reason: IdleReason, culprits: &[Culprit]) -> Option<IdleReason> {
    let idle = culprits.iter().find(|culprit| culprit.party == Party::Idle)?;
    Some(match reason {
        // The times of culprits of a long wait may be less exact than the times of idle states.
        IdleReason::State { state, leaving_ns } => {
            IdleReason::State { state, leaving_ns: leaving_ns.min(idle.ran_ns) }
        }
        IdleReason::NoState | IdleReason::Unknown => reason,
    })
}

fn slice(cpu: u16, span: Span, closing: &Closing<'_>) -> Slice {
    let Span { whose, start_ns, end_ns } = span;
    let (start_ns, end_ns) = (closing.since_start_ns(start_ns), closing.since_start_ns(end_ns));
    Slice { cpu, start_ns, end_ns, party: party(closing, whose) }
}

/// The number in histories of an idle CPU.
const NOBODY: u32 = 0;
/// The number of a CPU's unknown holder.
const NOBODY_KNOWN: u32 = 1;
/// The number of the first task in histories.
const FIRST_TASK: u32 = 2;

/// A holder's number in histories.
fn number(holder: Holder) -> u32 {
    match holder {
        Holder::Idle => NOBODY,
        Holder::Unknown => NOBODY_KNOWN,
        Holder::Task(task) => FIRST_TASK + task.at() as u32,
    }
}

fn task_of(timeline: &Timeline, number: u32) -> Option<TaskIndex> {
    timeline.index_at(number.checked_sub(FIRST_TASK)? as usize)
}

fn party(closing: &Closing<'_>, number: u32) -> Party {
    match task_of(closing.timeline, number) {
        Some(task) => Party::Task(closing.who(task)),
        None if number == NOBODY => Party::Idle,
        None => Party::Unknown,
    }
}

/// Interrupts without a line, by number.
const INNER_IRQS: [Irq; 4] = [Irq::LocalTimer, Irq::Reschedule, Irq::CallFunction, Irq::IrqWork];
/// How many numbers softirqs take: the number of a softirq is a byte.
const SOFTIRQS: u32 = 256;

/// An interrupt's number in histories.
fn interrupt_number(kind: InterruptKind) -> u32 {
    match kind {
        InterruptKind::Softirq(Softirq(vector)) => u32::from(vector),
        InterruptKind::Irq(Irq::Device(line)) => SOFTIRQS + INNER_IRQS.len() as u32 + u32::from(line),
        InterruptKind::Irq(inner) => {
            let at = INNER_IRQS.iter().position(|&known| known == inner);
            SOFTIRQS + at.map_or(0, |at| at as u32)
        }
    }
}

fn interrupt_of(number: u32) -> InterruptKind {
    let Some(irq) = number.checked_sub(SOFTIRQS) else {
        return InterruptKind::Softirq(Softirq(number as u8));
    };
    InterruptKind::Irq(match INNER_IRQS.get(irq as usize) {
        Some(&inner) => inner,
        None => Irq::Device((irq as usize - INNER_IRQS.len()) as u16),
    })
}

fn cause(cause: WaitCause, closing: &Closing<'_>) -> DelayCause {
    let who = |holder: Holder| holder.task().map(|task| closing.who(task));
    match cause {
        WaitCause::Woken { by, context } => DelayCause::Woken { waker: who(by), context },
        WaitCause::Preempted { by } => DelayCause::Preempted { by: who(by) },
        WaitCause::New => DelayCause::New,
        WaitCause::Throttled { limit } => {
            let Limit { group, quota_ns, period_ns } = closing.timeline.limit(limit).clone();
            let known = |ns| (period_ns > 0).then_some(ns);
            DelayCause::Throttled { group, quota_ns: known(quota_ns), period_ns: known(period_ns) }
        }
        WaitCause::Released { limit } => {
            DelayCause::Released { group: closing.timeline.limit(limit).group.clone() }
        }
        WaitCause::Unknown => DelayCause::Unknown,
    }
}
