//! The analyses' results: plain data, for a report to show.
//!
//! Points in time named `*_ns` count from the start of the trace, unless their name says otherwise; all other
//! times are durations. A part that was not asked for is `None`. A part that needs events that the trace
//! lacks is `None` too, and [`Findings::absent`] names the missing group.

mod delays;
mod graph;

pub use delays::{Blame, Bound, Culprit, Delay, DelayCause, DelayEnd, Delays, IdleReason, NameShare, Slice};
pub use graph::{ChannelFinding, ChannelUser, Channels, Component, Edge, Graph, Node};
use serde::{Serialize, Serializer};
pub use spry_timeline::{InterruptKind, Oddities};
use spry_trace::event::{Comm, Policy, PrevState, TimerKind};
use spry_trace::{Group, Groups, Kinds, Tgid, Tid};

use crate::histogram::{Histogram, Tally};

/// Everything found in one trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// The trace itself.
    pub trace: TraceFinding,
    /// Names of the analyses that ran, in their order.
    pub analyses: Vec<&'static str>,
    /// Parts that are `None` because the trace lacks a group.
    pub absent: Vec<Absent>,
    /// The selected tasks without idle tasks, longest run time first. A reused tid is a task of its own.
    pub tasks: Vec<TaskFinding>,
    /// Every CPU, by number.
    pub cpus: Vec<CpuFinding>,
    /// Distributions over all selected tasks together.
    pub overall: Overall,
    /// The graph of processes that wake each other or exchange bytes (`graph`).
    pub graph: Option<Graph>,
    /// The worst delays with their culprits, and the culprits of every victim (`delays`).
    pub delays: Option<Delays>,
    /// The parts of wake-up latency over all selected tasks (`wakeup`).
    pub wakeup: Option<WakeupFinding>,
    /// Interrupts and softirqs by kind, most time first (`stolen`, group `irq`).
    pub interrupts: Option<Vec<InterruptFinding>>,
    /// Lateness of timers by kind (`timers`, group `timer`).
    pub timers: Option<Vec<TimerFinding>>,
    /// Threads that timers woke periodically (`timers`, group `timer`), most wake-ups first.
    pub frames: Option<Vec<FramesFinding>>,
    /// Channels between processes, most bytes first (`ipc`, group `ipc`).
    pub channels: Option<Channels>,
    /// Programs' own events in order (`marks`, group `mark`).
    pub marks: Option<Marks>,
    /// The tasks that had each CPU over time, coarse enough to draw (`cpu`).
    pub drawing: Option<Drawing>,
    /// Billed ticks against quanta of the tasks with the most run time (`billing`), by task, then by rate.
    /// `None` if the phase of no CPU's tick is known.
    pub billing_steps: Option<Vec<BillingSteps>>,
}

/// A part of the findings that the trace's groups cannot give.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Absent {
    /// The name of the analysis, as `spry analyses` prints it.
    pub analysis: &'static str,
    /// The field that is `None`, e.g. `cpus[].irq_ns`.
    pub part: &'static str,
    /// The group that the trace lacks.
    pub group: Group,
}

/// The trace and the machine it was taken on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceFinding {
    /// The number of events in the window. The kernel's accounts of tasks count as events; restated names and
    /// records of losses do not.
    pub events: u64,
    /// Events lost on all CPUs.
    pub lost: u64,
    /// Events lost on each CPU, by number.
    pub lost_by_cpu: Vec<u64>,
    /// Size of the whole trace, bytes, whatever the window.
    pub bytes: u64,
    /// From the start of the recording to its end. If the end is not known, or was not read since the window
    /// ended before, to the last event that was read.
    pub duration_ns: u64,
    /// The start of the selected window, since the start of the trace.
    pub from_ns: u64,
    /// The end of the selected window, since the start of the trace.
    pub to_ns: u64,
    /// Number of CPUs.
    pub cpus: u16,
    /// Kernel release.
    pub kernel: String,
    /// `host`, `lab` or `sim`.
    pub machine: String,
    /// The machine's architecture (`uname -m`).
    pub arch: String,
    /// Tick rate, Hz, where known.
    pub hz: Option<u32>,
    /// Preemption model, where known.
    pub preemption: Option<String>,
    /// sched_ext scheduler in force, if any.
    pub scheduler: Option<String>,
    /// The recorder's own process.
    pub recorder_tgid: Option<Tgid>,
    /// Wall-clock time of the start, ns since the UNIX epoch.
    pub start_unix_ns: Option<u64>,
    /// The recorded command, if there was one.
    pub command: Option<Vec<String>>,
    /// Groups in the trace.
    pub groups: Groups,
    /// Kinds of events of group `sched` that the trace lacks: the figures that need them are `None`.
    pub lacks: Kinds,
    /// Events that contradict earlier events, by kind.
    pub oddities: Oddities,
}

/// A task, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Who {
    /// The thread's number.
    pub tid: Tid,
    /// The process's number; equal to `tid` if the trace does not give it.
    pub tgid: Tgid,
    /// The task's last name.
    #[serde(serialize_with = "comm_as_text")]
    pub comm: Comm,
}

fn comm_as_text<S: Serializer>(comm: &Comm, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(comm)
}

/// The holder of a CPU, or another cause of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    Task(Who),
    /// An interrupt or softirq, by its name.
    Interrupt(InterruptKind),
    /// The CPU was idle.
    Idle,
    /// The holder is not known: before the CPU's first switch, or after lost events.
    Unknown,
    /// Several tasks that are not kept apart.
    Others,
    /// The quota of a group above the task was spent: the task was not allowed to run on any CPU.
    Quota,
}

/// One task.
///
/// `runtime_ns + stolen_ns + runnable_wait_ns + blocked_ns + unknown_ns = life_ns`. A term that is `None`
/// counts as 0; `unknown_ns` then includes waiting and blocked time, and `runtime_ns` stolen time.
#[derive(Clone, Debug, Serialize)]
pub struct TaskFinding {
    /// The task's numbers and its name.
    pub who: Who,
    /// The time of creation; 0 if before the trace, `None` if the trace lacks the creation of tasks.
    pub start_ns: Option<u64>,
    /// The time at which the task ended; `None` if it outlived the trace.
    pub end_ns: Option<u64>,
    /// How long the task lived inside the window.
    pub life_ns: u64,
    /// Wall time on a CPU minus `stolen_ns`: the time that the kernel's `sum_exec_runtime` counts.
    pub runtime_ns: u64,
    /// Time on a run queue without a CPU; `None` if the trace has no wake-ups.
    pub runnable_wait_ns: Option<u64>,
    /// Time blocked; `None` if the trace has no wake-ups.
    pub blocked_ns: Option<u64>,
    /// The part of the task's life in which the trace does not show the task's state.
    pub unknown_ns: u64,
    /// Wall time on a CPU that the kernel did not count as the task's run time (hypervisor's steal). Below 0
    /// where the kernel counted more than the task's time on CPUs. `None` if the trace lacks the kernel's
    /// counts; `runtime_ns` is then wall time.
    pub stolen_ns: Option<i64>,
    /// Switches away from the task, as the kernel counts them.
    pub switches: Switches,
    /// Wake-ups of the task when it was blocked, and its first wake-up when it was new; `None` if the trace
    /// has no wake-ups.
    pub wakeups: Option<u64>,
    /// The number of the task's moves to other CPUs; `None` if the trace has no migrations.
    pub migrations: Option<u64>,
    /// Policy, where a change was seen.
    pub policy: Option<Policy>,
    /// The kernel's priority at the task's last switch or change of priority; `None` if neither was seen.
    pub prio: Option<u8>,
    /// The kernel's own account of the task.
    pub kernel: Option<KernelAccount>,
    /// The task's latency from run-queue insertion or preemption to the CPU (`dispatch`).
    pub dispatch: Option<Box<DispatchFinding>>,
    /// Effective quanta (`quanta`).
    pub quanta: Option<Box<QuantaFinding>>,
    /// The task's bills under tick sampling: one for each rate, in the order of the options (`billing`).
    pub billing: Option<Box<[BillingFinding]>>,
    /// The reasons for which the task left the CPU (`reasons`).
    pub reasons: Option<Box<Reasons>>,
    /// The task's run time on each CPU that it ran on, by number (`cpu`).
    pub cpu_shares: Option<Box<[CpuShare]>>,
    /// The parts of the task's wake-up latency (`wakeup`).
    pub wakeup: Option<Box<WakeupParts>>,
    /// The part of the task's time on CPUs that interrupts took (`stolen`, group `irq`).
    pub interrupted: Option<Interrupted>,
}

/// Switches away from a task, as `/proc/PID/status` counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Switches {
    /// Switches at which the task blocked.
    pub voluntary: u64,
    /// Switches at which the task stayed runnable.
    pub involuntary: u64,
}

/// The kernel's own account of a task between the first and the last one in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct KernelAccount {
    /// The time of the first account.
    pub from_ns: u64,
    /// The time of the last account.
    pub to_ns: u64,
    /// Growth of `sum_exec_runtime`.
    pub exec_ns: u64,
    /// Growth of the raw tick samples (`utime + stime`).
    pub ticks_ns: u64,
    /// The run time that the trace shows between the two accounts.
    pub runtime_ns: u64,
}

/// Dispatch latency (thesis, section 6.3.1).
#[derive(Clone, Debug, Default, Serialize)]
pub struct DispatchFinding {
    /// Waits after a wake-up, the first one of a new task included; `None` if the trace has no wake-ups.
    pub wakeup: Option<Histogram>,
    /// Waits after the task was preempted.
    pub preemption: Histogram,
    /// All waits; `None` if the trace has no wake-ups.
    pub all: Option<Histogram>,
    /// The task's waiting time divided by its runnable time (waiting and running), 0 to 1. `None` if the task
    /// was never runnable, or if the trace has no wake-ups.
    pub wait_share: Option<f64>,
}

/// Effective quanta (Etsion, Tsafrir, Feitelson 2003, sections 4 and 6): from getting the CPU to losing it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QuantaFinding {
    /// Lengths of whole quanta, wall time.
    pub lengths: Histogram,
    /// Whole quanta a second of the task's life inside the window; `None` if that life has no length.
    pub per_second: Option<f64>,
    /// Quanta that the window or a loss cut at an end; not in `lengths`.
    pub cut: Tally,
}

/// A task's bill under tick sampling at one rate.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct BillingFinding {
    /// Ticks a second.
    pub hz: u32,
    /// The number of ticks that hit the task, times the tick's period, divided by the task's run time. At the
    /// machine's own rate, recorded ticks count if there are any, otherwise ticks at the machine's own phase.
    /// `None` if that phase is unknown or the task did not run.
    pub ratio: Option<f64>,
    /// Percent of the task's whole quanta that no tick hit, at the machine's own phase.
    pub missed_percent: Option<f64>,
    /// The smallest ratio over 64 evenly spaced phases and the ticks of `ratio`.
    pub ratio_min: Option<f64>,
    /// The greatest ratio over the same phases and ticks.
    pub ratio_max: Option<f64>,
}

/// A task's quanta by length and by the ticks that hit them, at the machine's own phase (Etsion, Tsafrir,
/// Feitelson 2003, figure 4).
#[derive(Clone, Debug, Serialize)]
pub struct BillingSteps {
    /// The task that had the quanta.
    pub who: Who,
    /// Ticks a second.
    pub hz: u32,
    /// The quanta, in order of length, then of ticks; the number of cells is bounded.
    pub cells: Vec<StepCell>,
}

/// Quanta of about the same length that were hit by equally many ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StepCell {
    /// The length of these quanta.
    pub quantum_ns: u64,
    /// How many ticks hit each of these quanta.
    pub ticks: u32,
    /// About how many quanta these are: if a task has many, one in eight is counted and stands for eight.
    pub count: u64,
}

/// Reasons for which a task left the CPU, in switches (thesis, section 6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reasons {
    /// Switches by the state in which the task left, in the order of [`PrevState::ALL`].
    pub by_state: [u64; PrevState::ALL.len()],
    /// The reasons that only wakings show; `None` if the trace has no wakings.
    pub by_wakings: Option<ByWakings>,
}

/// Reasons for which a task left the CPU and that only wakings show, in switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ByWakings {
    /// The task stayed runnable and gave way to a task that it had itself woken in that quantum.
    pub preempted_by_own_wakee: u64,
    /// The task stayed runnable and gave way to a task that another waker or a fork made runnable meanwhile.
    pub preempted_by_other_wakee: u64,
    /// The task stayed runnable, and its slice was over: it gave way to a task that had waited since before
    /// the quantum or had lost another CPU meanwhile.
    pub end_of_slice: u64,
    /// The task stayed runnable and gave way for none of these reasons (to an unknown task, or
    /// the idle task).
    pub other_involuntary: u64,
    /// Voluntary in the thesis' sense: the task blocked, or gave way to a task that it had itself woken.
    pub thesis_voluntary: u64,
}

/// A task's run time on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuShare {
    /// The CPU; `None` gathers the CPUs with the least run time where there are too many to keep.
    pub cpu: Option<u16>,
    /// The task's run time on that CPU.
    pub runtime_ns: u64,
}

/// Time that interrupts took from a task's stays on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Interrupted {
    /// Time in interrupt handlers.
    pub irq_ns: u64,
    /// Time in softirqs (without the interrupts inside them).
    pub softirq_ns: u64,
    /// How many handlers and softirqs ran.
    pub count: u64,
}

/// One CPU. `busy_ns + idle_ns + unknown_ns` is the length of the window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CpuFinding {
    /// The CPU's number.
    pub cpu: u16,
    /// Time in which a task had the CPU.
    pub busy_ns: u64,
    /// Time in which the CPU was idle.
    pub idle_ns: u64,
    /// The time in which the CPU's holder is not known (before its first switch, or after lost events).
    pub unknown_ns: u64,
    /// Time in interrupts and softirqs, which is part of the times above; `None` without group `irq`.
    pub irq_ns: Option<u64>,
    /// Wall time of tasks that the kernel did not count, part of `busy_ns`; below 0 where it counted more.
    /// `None` if the trace lacks the kernel's counts.
    pub stolen_ns: Option<i64>,
    /// Switches of tasks on the CPU in the window.
    pub switches: u64,
    /// Clock ticks handled; `None` if the trace has no ticks.
    pub ticks: Option<u64>,
    /// The number of tasks' moves from this CPU to another CPU; `None` if the trace has no migrations.
    pub migrations_out: Option<u64>,
    /// The number of tasks' moves to this CPU from another CPU; `None` if the trace has no migrations.
    pub migrations_in: Option<u64>,
}

/// Distributions over all selected tasks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overall {
    /// Effective quanta (`quanta`).
    pub quanta: Option<Histogram>,
    /// Dispatch latency (`dispatch`).
    pub dispatch: Option<Histogram>,
}

/// The parts of wake-up latency over all selected tasks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WakeupFinding {
    /// From a timer's deadline to its handler's entry, for wake-ups by timers; `None` without group `timer`.
    pub timer: Option<Histogram>,
    /// From the handler's entry to waking; `None` without group `timer`.
    pub expiry: Option<Histogram>,
    /// From waking to the run queue.
    pub enqueue: Histogram,
    /// From waking to need-resched being set on the CPU; `None` without group `resched`.
    pub resched: Option<Histogram>,
    /// From need-resched to the switch; `None` without group `resched`.
    pub switch: Option<Histogram>,
    /// From waking to the switch.
    pub total: Histogram,
    /// From deadline to switch, for wake-ups by timers (Etsion 2003, section 7); `None`
    /// without group `timer`.
    pub deadline_to_switch: Option<Histogram>,
    /// The tasks that had the CPU between waking and switch, or its idle time, most time first.
    pub culprits: Vec<Culprit>,
}

/// The parts of one task's wake-up latency. See [`WakeupFinding`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WakeupParts {
    /// Deadline to handler.
    pub timer: Option<Tally>,
    /// Handler to waking.
    pub expiry: Option<Tally>,
    /// Waking to run queue.
    pub enqueue: Tally,
    /// Waking to need-resched.
    pub resched: Option<Tally>,
    /// Need-resched to switch.
    pub switch: Option<Tally>,
    /// Waking to switch.
    pub total: Tally,
}

/// Time in one kind of interrupt or softirq.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct InterruptFinding {
    /// The interrupt or softirq.
    pub kind: InterruptKind,
    /// Time in this kind, without the interrupts inside it.
    pub time: Tally,
    /// The part of that time that was taken from tasks (not from idle CPUs).
    pub stolen_ns: u64,
}

/// Lateness of one kind of timer: from the deadline to the handler's entry.
#[derive(Clone, Debug, Serialize)]
pub struct TimerFinding {
    pub kind: TimerKind,
    /// The time from the deadline to the handler's entry; timers that were handled early are not in it.
    pub lateness: Histogram,
    /// How many timers were handled after the latest time that timer slack allows.
    pub past_slack: u64,
    /// How many timers were handled before the deadline (clock adjustment, or the kernel's
    /// rounding of slack).
    pub early: u64,
}

/// A thread that timers woke at regular intervals, such as a player that shows frames.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FramesFinding {
    /// The thread that the timers woke.
    pub who: Who,
    /// The median of the intervals between deadlines.
    pub period_ns: u64,
    /// The number of wake-ups; at most the first 65,536 count.
    pub count: u64,
    /// The share of wake-ups that ticks would make late, by rate.
    pub skipped: Vec<SkippedFinding>,
}

/// The share of wake-ups that would come later than half of the period after their deadlines, from 0 to 1, if
/// timers expired only at ticks. It depends on the phase of the ticks, so there are three figures over 24
/// evenly spaced phases.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SkippedFinding {
    /// The rate of the ticks, Hz.
    pub hz: u32,
    /// The mean over all phases.
    pub mean: f64,
    /// The share at the best phase.
    pub least: f64,
    /// The share at the worst phase.
    pub most: f64,
}

/// Programs' own events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Marks {
    /// The marks in order of time, at most the first [`Marks::MAX`].
    pub list: Vec<MarkFinding>,
    /// How many marks there were.
    pub count: u64,
}

impl Marks {
    /// How many marks are kept at most.
    pub const MAX: usize = 10_000;
}

/// One program's own event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MarkFinding {
    /// The time of the mark, ns since the start of the trace.
    pub time_ns: u64,
    /// The CPU on which the mark was made.
    pub cpu: u16,
    /// The task that wrote the mark.
    pub who: Who,
    /// The mark's text.
    pub text: Box<str>,
}

/// The tasks that had each CPU over time, in columns of equal width.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Drawing {
    /// Start of the first column.
    pub from_ns: u64,
    /// Width of a column.
    pub column_ns: u64,
    /// The tasks that [`Column::top`] refers to.
    pub tasks: Vec<Who>,
    /// The columns of each CPU, by its number; at most about 2000 a CPU.
    pub cpus: Vec<Vec<Column>>,
}

/// One column of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Column {
    /// Time in which a task had the CPU.
    pub busy_ns: u64,
    /// The time in which the CPU's holder is not known.
    pub unknown_ns: u64,
    /// The tasks with (about) the most time: index into [`Drawing::tasks`] and time; the task with the most
    /// time first. An unused entry has 0 ns.
    pub top: [(u32, u64); 3],
}
