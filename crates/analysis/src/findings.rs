//! What the analyses find: plain data, for a report to show.
//!
//! Times named `*_ns` that say *when* count from the start of the trace; all others are durations. A part that
//! was not asked for, or that needs events the trace lacks, is `None`; [`Findings::absent`] then names the
//! missing group. Nothing unknown is ever 0.

mod delays;
mod graph;

pub use delays::{Blame, Culprit, Delay, DelayCause, DelayEnd, Delays, NameShare, Slice};
pub use graph::{ChannelFinding, ChannelUser, Channels, Component, Edge, Graph, Node};
use serde::{Serialize, Serializer};
pub use spry_timeline::{InterruptKind, Oddities};
use spry_trace::event::{Comm, Policy, PrevState, TimerKind};
use spry_trace::{Group, Groups, Tgid, Tid};

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
    /// The selected tasks, longest run time first. A reused tid is a task of its own. No idle tasks.
    pub tasks: Vec<TaskFinding>,
    /// Every CPU, by number.
    pub cpus: Vec<CpuFinding>,
    /// Over all selected tasks together.
    pub overall: Overall,
    /// Who talks to whom (`graph`).
    pub graph: Option<Graph>,
    /// What delayed whom (`delays`).
    pub delays: Option<Delays>,
    /// The parts of wake-up latency over all selected tasks (`wakeup`).
    pub wakeup: Option<WakeupFinding>,
    /// Interrupts and softirqs by kind, most time first (`stolen`, group `irq`).
    pub interrupts: Option<Vec<InterruptFinding>>,
    /// Lateness of timers by kind (`timers`, group `timer`).
    pub timers: Option<Vec<TimerFinding>>,
    /// Channels between processes, most bytes first (`ipc`, group `ipc`).
    pub channels: Option<Channels>,
    /// Programs' own events in order (`marks`, group `mark`).
    pub marks: Option<Marks>,
    /// Who had each CPU when, coarse enough to draw (`cpu`).
    pub drawing: Option<Drawing>,
    /// Billed ticks against quanta of the tasks with the most run time (`billing`), by task, then by rate; `None`
    /// if the phase of no CPU's tick is known.
    pub billing_steps: Option<Vec<BillingSteps>>,
}

/// A part of the findings that the trace's groups cannot give.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Absent {
    /// The analysis.
    pub analysis: &'static str,
    /// The field that is `None`, e.g. `cpus[].irq_ns`.
    pub part: &'static str,
    /// The group that the trace lacks.
    pub group: Group,
}

/// The trace and the machine it was taken on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TraceFinding {
    /// Events, the kernel's accounts of tasks among them; restated names and records of losses are none.
    pub events: u64,
    /// Events lost on all CPUs.
    pub lost: u64,
    /// Events lost on each CPU, by number.
    pub lost_by_cpu: Vec<u64>,
    /// Size of the trace, bytes.
    pub bytes: u64,
    /// From the start of the recording to its last event.
    pub duration_ns: u64,
    /// Where the looked-at window starts, since the start of the trace.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
    /// Number of CPUs.
    pub cpus: u16,
    /// Kernel release.
    pub kernel: String,
    /// `host`, `lab` or `sim`.
    pub machine: String,
    /// Architecture.
    pub arch: String,
    /// Tick rate, where known.
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
    /// Events that contradict the ones before them, by kind.
    pub oddities: Oddities,
}

/// A task, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Who {
    /// Thread.
    pub tid: Tid,
    /// Process; equal to `tid` where the trace does not say.
    pub tgid: Tgid,
    /// Its last name.
    #[serde(serialize_with = "comm_as_text")]
    pub comm: Comm,
}

fn comm_as_text<S: Serializer>(comm: &Comm, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(comm)
}

/// Who or what had a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// A task.
    Task(Who),
    /// An interrupt or softirq, by its name.
    Interrupt(InterruptKind),
    /// Nobody: the CPU was idle.
    Idle,
    /// Not known (before the first switch, or lost).
    Unknown,
    /// Several that are not kept apart.
    Others,
}

/// One task.
///
/// `runtime_ns + stolen_ns + runnable_wait_ns + blocked_ns + unknown_ns = life_ns`.
#[derive(Clone, Debug, Serialize)]
pub struct TaskFinding {
    /// Its names.
    pub who: Who,
    /// When it was created; 0 if before the trace.
    pub start_ns: u64,
    /// When it ended; `None` if it outlived the trace.
    pub end_ns: Option<u64>,
    /// Its life inside the window.
    pub life_ns: u64,
    /// Wall time on a CPU minus what the kernel did not count (`stolen_ns`): `sum_exec_runtime`'s notion.
    pub runtime_ns: u64,
    /// Time on a run queue without a CPU.
    pub runnable_wait_ns: u64,
    /// Time blocked.
    pub blocked_ns: u64,
    /// Time of its life of which the trace does not tell.
    pub unknown_ns: u64,
    /// Wall time on a CPU that the kernel did not count as its run time (hypervisor's steal); below 0 where it
    /// counted more than the stays on a CPU.
    pub stolen_ns: i64,
    /// Switches away from it, as the kernel counts them.
    pub switches: Switches,
    /// Wake-ups from a block, and its first.
    pub wakeups: u64,
    /// Moves to another CPU.
    pub migrations: u64,
    /// Policy, where a change was seen.
    pub policy: Option<Policy>,
    /// The kernel's priority at its last switch; `None` if it had none.
    pub prio: Option<u8>,
    /// The kernel's own account.
    pub kernel: Option<KernelAccount>,
    /// From run-queue insertion or preemption to the CPU (`dispatch`).
    pub dispatch: Option<Box<DispatchFinding>>,
    /// Effective quanta (`quanta`).
    pub quanta: Option<Box<QuantaFinding>>,
    /// What tick sampling bills, one entry a rate in the order of the options (`billing`).
    pub billing: Option<Box<[BillingFinding]>>,
    /// Why it left the CPU (`reasons`).
    pub reasons: Option<Box<Reasons>>,
    /// Run time on each CPU it ran on, by number (`cpu`).
    pub cpu_shares: Option<Box<[CpuShare]>>,
    /// The parts of its wake-up latency (`wakeup`).
    pub wakeup: Option<Box<WakeupParts>>,
    /// Time of its stays on a CPU that interrupts took (`stolen`, group `irq`).
    pub interrupted: Option<Interrupted>,
}

/// Switches away from a task, as `/proc/PID/status` counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Switches {
    /// It blocked.
    pub voluntary: u64,
    /// It stayed runnable.
    pub involuntary: u64,
}

/// The kernel's own account of a task between the first and the last one in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct KernelAccount {
    /// When the first was taken.
    pub from_ns: u64,
    /// When the last was taken.
    pub to_ns: u64,
    /// Growth of `sum_exec_runtime`.
    pub exec_ns: u64,
    /// Growth of the raw tick samples (`utime + stime`).
    pub ticks_ns: u64,
    /// The run time that the trace shows between the two.
    pub runtime_ns: u64,
}

/// Dispatch latency (thesis, section 6.3.1).
#[derive(Clone, Debug, Default, Serialize)]
pub struct DispatchFinding {
    /// Waits after a wake-up, the first one of a new task included.
    pub wakeup: Histogram,
    /// Waits after having been preempted.
    pub preemption: Histogram,
    /// All waits.
    pub all: Histogram,
    /// Waiting time over runnable time (waiting and running), 0 to 1; `None` if it was never runnable.
    pub wait_share: Option<f64>,
}

/// Effective quanta (Etsion, Tsafrir, Feitelson 2003, sections 4 and 6): from getting the CPU to losing it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QuantaFinding {
    /// Lengths of whole quanta, wall time.
    pub lengths: Histogram,
    /// Whole quanta a second of the task's life inside the window.
    pub per_second: f64,
    /// Quanta of which the window or a loss cut off an end; not in `lengths`.
    pub cut: Tally,
}

/// What tick sampling at one rate bills a task.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct BillingFinding {
    /// Ticks a second.
    pub hz: u32,
    /// Ticks that hit the task times the period over its run time: at the machine's own rate the recorded ticks if
    /// there are any, otherwise those of its own tick phase. `None` if that is unknown or the task did not run.
    pub ratio: Option<f64>,
    /// Percent of its whole quanta that no tick hit, at the machine's own phase.
    pub missed_percent: Option<f64>,
    /// Smallest ratio over 64 evenly spaced phases and the ticks above.
    pub ratio_min: Option<f64>,
    /// Greatest.
    pub ratio_max: Option<f64>,
}

/// A task's quanta by length and by the ticks that hit them, at the machine's own phase (Etsion, Tsafrir,
/// Feitelson 2003, figure 4).
#[derive(Clone, Debug, Serialize)]
pub struct BillingSteps {
    /// Whose.
    pub who: Who,
    /// Ticks a second.
    pub hz: u32,
    /// By length, then by ticks; a bounded number.
    pub cells: Vec<StepCell>,
}

/// Quanta of about the same length that were billed the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StepCell {
    /// Their length.
    pub quantum_ns: u64,
    /// Ticks that hit each.
    pub ticks: u32,
    /// How many quanta, about: of a task's many, one in eight is looked at and stands for eight.
    pub count: u64,
}

/// Why a task left the CPU, in switches (thesis, section 6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reasons {
    /// By the state in which it left, in the order of [`PrevState::ALL`].
    pub by_state: [u64; PrevState::ALL.len()],
    /// Stayed runnable and gave way to a task that it had itself woken in that quantum.
    pub preempted_by_own_wakee: u64,
    /// Stayed runnable and gave way to a task that another woke during that quantum.
    pub preempted_by_other_wakee: u64,
    /// Stayed runnable and gave way to a task that had waited since before the quantum: the end of its slice.
    pub end_of_slice: u64,
    /// Stayed runnable, for none of these reasons (an unknown task, or the idle task).
    pub other_involuntary: u64,
    /// Voluntary in the thesis' sense: it blocked, or gave way to a task that it had itself woken.
    pub thesis_voluntary: u64,
}

/// A task's run time on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CpuShare {
    /// The CPU; `None` gathers the ones with the least where there are too many to keep.
    pub cpu: Option<u16>,
    /// Run time there.
    pub runtime_ns: u64,
}

/// Time that interrupts took from a task's stays on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Interrupted {
    /// In interrupt handlers.
    pub irq_ns: u64,
    /// In softirqs (without the interrupts inside them).
    pub softirq_ns: u64,
    /// Handlers and softirqs.
    pub count: u64,
}

/// One CPU. `busy_ns + idle_ns + unknown_ns` is the window.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CpuFinding {
    /// Its number.
    pub cpu: u16,
    /// Time with a task.
    pub busy_ns: u64,
    /// Time with the idle task.
    pub idle_ns: u64,
    /// Time of which the trace does not tell (before its first switch, or lost).
    pub unknown_ns: u64,
    /// Time in interrupts and softirqs, part of the above; `None` without group `irq`.
    pub irq_ns: Option<u64>,
    /// Wall time of tasks that the kernel did not count, part of `busy_ns`; below 0 where it counted more.
    pub stolen_ns: i64,
    /// Switches.
    pub switches: u64,
    /// Clock ticks handled.
    pub ticks: u64,
    /// Tasks that left it for another CPU and came to it.
    pub migrations_out: u64,
    /// See `migrations_out`.
    pub migrations_in: u64,
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
    /// From deadline to switch, for wake-ups by timers (Etsion 2003, section 7); `None` without group `timer`.
    pub deadline_to_switch: Option<Histogram>,
    /// Who had the CPU between waking and switch, most time first.
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
    /// Which.
    pub kind: InterruptKind,
    /// Without the interrupts inside it.
    pub time: Tally,
    /// The part of it taken from tasks (not from idle CPUs).
    pub stolen_ns: u64,
}

/// Lateness of one kind of timer: from the deadline to the handler's entry.
#[derive(Clone, Debug, Serialize)]
pub struct TimerFinding {
    /// Which kind.
    pub kind: TimerKind,
    /// After the deadline.
    pub lateness: Histogram,
    /// Handled after the latest time that timer slack allows.
    pub past_slack: u64,
    /// Handled before the deadline (clock adjustment, or slack rounding of the kernel's).
    pub early: u64,
}

/// Programs' own events.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Marks {
    /// In order of time, the first [`Marks::MAX`].
    pub list: Vec<MarkFinding>,
    /// How many there were.
    pub count: u64,
}

impl Marks {
    /// Most marks kept.
    pub const MAX: usize = 10_000;
}

/// One program's own event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MarkFinding {
    /// When.
    pub time_ns: u64,
    /// Where.
    pub cpu: u16,
    /// Whose.
    pub who: Who,
    /// What it says.
    pub text: Box<str>,
}

/// Who had each CPU when, in columns of equal width.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Drawing {
    /// Start of the first column.
    pub from_ns: u64,
    /// Width of a column.
    pub column_ns: u64,
    /// The tasks that [`Column::top`] refers to.
    pub tasks: Vec<Who>,
    /// By CPU, then by column; at most about 2000 a CPU.
    pub cpus: Vec<Vec<Column>>,
}

/// One column of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Column {
    /// Time with a task.
    pub busy_ns: u64,
    /// Time of which the trace does not tell.
    pub unknown_ns: u64,
    /// The tasks with (about) the most time: index into [`Drawing::tasks`] and time; most first, empty ones 0 ns.
    pub top: [(u32, u64); 3],
}
