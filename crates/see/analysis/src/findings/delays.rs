//! What is found of waits, and of what had the CPU meanwhile.

use serde::Serialize;
use spry_trace::event::{Comm, Context};

use super::{Party, Who};

/// What delayed which task.
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
    /// When the wait began.
    pub start_ns: u64,
    /// How long the task waited.
    pub wait_ns: u64,
    /// The CPU that the task got, or of the queue in which it was when the trace ended.
    pub cpu: u16,
    /// How the wait started.
    pub cause: DelayCause,
    /// How the wait ended.
    pub end: DelayEnd,
    /// What had the CPU during the wait, most time first. The time of an interrupt is also part of the time
    /// of the task that it interrupted. If there are more than [`Delay::CULPRITS_MAX`] tasks, those with the
    /// least time count as others.
    pub culprits: Vec<Culprit>,
    /// The tasks that had the CPU during the wait, summed up by name, those too that count as others in
    /// `culprits`: at most [`Delay::NAMES_MAX`] names, most time first.
    pub names: Vec<NameShare>,
    /// The stays on the CPU during the wait, in order of time, for drawing: at most the latest
    /// [`Delay::SLICES_MAX`].
    pub slices: Vec<Slice>,
    /// Why the CPU that the task got was idle during the wait (group `idle`). `None` if no idle CPU is among
    /// the culprits, or if the trace lacks the group.
    pub idle: Option<IdleReason>,
    /// Where the last culprit was in the code when it left the CPU, innermost frame first (group `stack`);
    /// empty if that is not known.
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
        /// The task that was running on the waker's CPU; `None` for the idle task and where unknown.
        waker: Option<Who>,
        /// The context in which the task was woken.
        context: Context,
    },
    /// The task was pushed off the CPU.
    Preempted {
        /// The task that got the CPU; `None` where it is not known.
        by: Option<Who>,
    },
    /// The task was created.
    New,
    /// The task might not run, since the quota of a group was spent.
    Throttled {
        /// The cgroup that holds the limit; empty if it is not known.
        group: Box<str>,
        /// The run time that the group may have in each period, ns; `None` if the limit is not known.
        quota_ns: Option<u64>,
        /// The period, ns; `None` if the limit is not known.
        period_ns: Option<u64>,
    },
    /// The task was throttled before, and might run again.
    Released {
        /// The cgroup that holds the limit; empty if it is not known.
        group: Box<str>,
    },
    /// The task already waited when the trace began.
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
        /// How long the task waited until the CPU left the state, ns. What the CPU was idle beyond this, it
        /// was in the kernel, after it had left the state.
        leaving_ns: u64,
    },
    /// The CPU was idle and in no idle state when the task began to wait for it.
    NoState,
    /// The trace does not tell.
    Unknown,
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

/// What had the CPU during a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Culprit {
    /// What had the CPU.
    pub party: Party,
    /// How long it had the CPU during the wait.
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
    /// What had the CPU.
    pub party: Party,
}

/// How much of a victim's waiting one culprit filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Blame {
    /// The task that waited.
    pub victim: Who,
    /// What had the CPU. [`Party::Others`] gathers the culprits with less time.
    pub culprit: Party,
    /// How long the culprit had the CPU while the victim waited, over all waits.
    pub total_ns: u64,
    /// In how many of the victim's waits the culprit had the CPU.
    pub waits: u64,
}
