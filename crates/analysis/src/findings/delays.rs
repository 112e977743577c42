//! What is found of waits and of those who had the CPU meanwhile.

use serde::Serialize;
use spry_trace::event::{Comm, Context};

use super::{Party, Who};

/// What delayed whom.
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
    /// Who waited.
    pub victim: Who,
    /// Since when.
    pub start_ns: u64,
    /// How long.
    pub wait_ns: u64,
    /// The CPU it got, or was queued on when the trace ended.
    pub cpu: u16,
    /// How the wait started.
    pub cause: DelayCause,
    /// How it ended.
    pub end: DelayEnd,
    /// Who had the CPU meanwhile, most time first. Interrupts' time is also in that of the task they interrupted.
    /// Of more than [`Delay::CULPRITS_MAX`] tasks the ones with least are others.
    pub culprits: Vec<Culprit>,
    /// The same tasks, and those that are others there, by name: at most [`Delay::NAMES_MAX`], most time first.
    pub names: Vec<NameShare>,
    /// In order of time, for drawing; at most [`Delay::SLICES_MAX`], the latest.
    pub slices: Vec<Slice>,
    /// Where the last culprit was in the code when it left, innermost first (group `stack`); empty if not known.
    pub culprit_stack: Vec<Box<str>>,
}

impl Delay {
    /// Most slices kept of one delay.
    pub const SLICES_MAX: usize = 64;
    /// Most tasks named as culprits of one delay.
    pub const CULPRITS_MAX: usize = 32;
    /// Most names kept of one delay.
    pub const NAMES_MAX: usize = 8;
}

/// How a wait started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayCause {
    /// It was woken. `waker` is only to blame in [`Context::Task`].
    Woken {
        /// Who was running on the waker's CPU; `None` for the idle task and where unknown.
        waker: Option<Who>,
        /// In which context.
        context: Context,
    },
    /// It was pushed off the CPU.
    Preempted {
        /// By whom; `None` where unknown.
        by: Option<Who>,
    },
    /// It was created.
    New,
    /// It already waited when the trace began.
    Unknown,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayEnd {
    /// It got a CPU.
    Dispatched,
    /// The window ended first.
    Cut,
}

/// One who had the CPU during a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Culprit {
    /// Who.
    pub party: Party,
    /// How long during the wait.
    pub ran_ns: u64,
}

/// The tasks of one name that had the CPU during a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NameShare {
    /// Their name.
    #[serde(serialize_with = "super::comm_as_text")]
    pub comm: Comm,
    /// How many they are.
    pub tasks: u32,
    /// How long during the wait, together.
    pub ran_ns: u64,
}

/// A stay on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Slice {
    /// The CPU.
    pub cpu: u16,
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// Whose.
    pub party: Party,
}

/// How much of a victim's waiting one culprit filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Blame {
    /// Who waited.
    pub victim: Who,
    /// Who had the CPU. [`Party::Others`] gathers the ones with less.
    pub culprit: Party,
    /// Time.
    pub total_ns: u64,
    /// Waits in which it took part.
    pub waits: u64,
}
