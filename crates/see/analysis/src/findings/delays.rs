//! Results on waits, and on the tasks and interrupts that had the CPU meanwhile.

use serde::Serialize;
use spry_trace::event::{Comm, Context};

use super::{Party, Who};

/// The worst waits, and the culprits of every victim.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Delays {
    /// The longest waits, longest first.
    pub worst: Vec<Delay>,
    /// Victim by culprit, most time first.
    pub blame: Vec<Blame>,
}

/// One wait for a CPU.
#[derive(Clone, Debug, Serialize)]
pub struct Delay {
    /// The task that waited.
    pub victim: Who,
    /// The start of the wait, ns since the start of the trace.
    pub start_ns: u64,
    /// The length of the wait, ns.
    pub wait_ns: u64,
    /// The CPU that the task got; if the window ended first, the CPU of the task's queue.
    pub cpu: u16,
    /// How the wait started.
    pub cause: DelayCause,
    /// How the wait ended.
    pub end: DelayEnd,
    /// The tasks and interrupts that had the CPU during the wait, most time first. The time of an interrupt
    /// is also part of the time of the task that it interrupted. If there are more than
    /// [`Delay::CULPRITS_MAX`] tasks, the tasks with the least time count as others.
    pub culprits: Vec<Culprit>,
    /// The tasks that had the CPU during the wait, summed up by name, including tasks among the others of
    /// `culprits`. At most [`Delay::NAMES_MAX`] names, most time first.
    pub names: Vec<NameShare>,
    /// The stays on the CPU during the wait, in order of time, for drawing: at most the latest
    /// [`Delay::SLICES_MAX`].
    pub slices: Vec<Slice>,
    /// Why the CPU that the task got was idle during the wait (group `idle`). `None` if no idle CPU is among
    /// the culprits, or if the trace lacks the group.
    pub idle: Option<IdleReason>,
    /// The CPU that was idle and that the task did not use, since it is bound to other CPUs. `None` if there
    /// is no such CPU, or if the trace does not show the task's affinity.
    pub bound: Option<Bound>,
    /// The call stack of the last culprit when it left the CPU, innermost frame first (group `stack`); empty
    /// if it is not known.
    pub culprit_stack: Vec<Box<str>>,
}

impl Delay {
    /// How many slices are kept of one delay at most.
    pub const SLICES_MAX: usize = 64;
    /// How many tasks are named as culprits of one delay at most.
    pub const CULPRITS_MAX: usize = 32;
    /// How many names are kept of one delay at most.
    pub const NAMES_MAX: usize = 8;
}

/// How a wait started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayCause {
    /// The task was woken. In another context than [`Context::Task`], the wake-up is not the work of `waker`.
    Woken {
        /// The task that was running on the waker's CPU; `None` if it was the idle task or is not known.
        waker: Option<Who>,
        /// The context in which the task was woken.
        context: Context,
    },
    /// The task was preempted, or left the CPU while runnable.
    Preempted {
        /// The task that got the CPU; `None` where it is not known.
        by: Option<Who>,
    },
    /// The task was created.
    New,
    /// The task was not allowed to run, since the quota of a group was spent.
    Throttled {
        /// The cgroup that holds the limit; empty if it is not known.
        group: Box<str>,
        /// The run time that the group may have in each period, ns; `None` if the limit is not known.
        quota_ns: Option<u64>,
        /// The period, ns; `None` if the limit is not known.
        period_ns: Option<u64>,
    },
    /// The task was throttled before, and was allowed to run again.
    Released {
        /// The cgroup that holds the limit; empty if it is not known.
        group: Box<str>,
    },
    /// The task already waited when the trace began, or when events were lost.
    Unknown,
}

/// Why a CPU was idle while a task waited for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleReason {
    /// The CPU was in an idle state when the task began to wait for it.
    State {
        /// The state's number in the kernel's idle driver.
        state: u32,
        /// How long the task waited until the CPU left the state, ns. The CPU's further idle time passed in
        /// the kernel, after the CPU had left the state.
        leaving_ns: u64,
    },
    /// The CPU was idle and in no idle state when the task began to wait for it.
    NoState,
    /// The trace does not show whether the CPU was in an idle state.
    Unknown,
}

/// A task that waits is bound to some of the CPUs, while another CPU is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Bound {
    /// The number of CPUs on which the task may run.
    pub cpus: u16,
    /// The CPU that was idle longest, without the CPUs in the queues of which the task waited. If the task
    /// may run on several CPUs, this may be one of them.
    pub idle_cpu: u16,
    /// How long that CPU was idle during the wait, ns.
    pub idle_ns: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayEnd {
    /// The task got a CPU.
    Dispatched,
    /// The window ended first.
    Cut,
}

/// A task or interrupt that had the CPU during a wait, or another cause of the wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Culprit {
    /// The holder of the CPU.
    pub party: Party,
    /// The time for which the holder had the CPU during the wait, ns.
    pub ran_ns: u64,
}

/// The tasks of one name that had the CPU during a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NameShare {
    /// The name of these tasks.
    #[serde(serialize_with = "super::comm_as_text")]
    pub comm: Comm,
    /// How many tasks have this name.
    pub tasks: u32,
    /// How long these tasks together had the CPU during the wait.
    pub ran_ns: u64,
}

/// A stay on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Slice {
    pub cpu: u16,
    /// The start, ns since the start of the trace.
    pub start_ns: u64,
    /// The end, ns since the start of the trace.
    pub end_ns: u64,
    /// The holder of the CPU.
    pub party: Party,
}

/// The part of a victim's waiting time that one culprit filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Blame {
    /// The task that waited.
    pub victim: Who,
    /// The holder of the CPU. [`Party::Others`] gathers the culprits with less time.
    pub culprit: Party,
    /// How long the culprit had the CPU while the victim waited, over all waits.
    pub total_ns: u64,
    /// How many of the victim's waits the culprit filled in part; at most the latest 4 stays of a wait count.
    pub waits: u64,
}
