//! The explanation why a process is in use, or why it is not.

use serde::{Deserialize, Serialize};

use crate::{Scope, State, TaskStatus};

/// The answer to the question why a process is in use, or why not.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The users that the answer covers: all, or the caller alone.
    #[serde(default)]
    pub scope: Scope,
    /// The process' entry, as in the status.
    #[serde(flatten)]
    pub task: TaskStatus,
    /// Whether the process is in use: the user's information passes through it.
    pub in_use: bool,
    /// The credits that add up to the process' shortcut. They were earned by the process itself, or by the
    /// process on its way that earned most.
    pub credits: Vec<Credit>,
    /// The process that earned the credits: this process, or one before it on its way.
    pub credits_of: Option<u32>,
    /// The processes that this process waits for, heaviest first; null if dependencies cannot be seen.
    pub depends_on: Option<Vec<Neighbour>>,
    /// The processes that wait for this process, heaviest first; null if dependencies cannot be seen.
    pub needed_by: Option<Vec<Neighbour>>,
    /// How many half edges every step of a way costs.
    pub edge_length: u16,
    /// The user that put the process into its class by hand, if a user did.
    pub set_by_uid: Option<u32>,
    /// The state of the daemon.
    pub state: State,
    /// The actuator in charge: `scx`, `fair`, or `none`.
    pub actuator: String,
}

/// A credit: a part of a process' shortcut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Credit {
    /// The reason for the credit.
    pub kind: CreditKind,
    /// How many half edges the credit is worth.
    pub half_edges: u16,
}

/// The reasons for which a process gets credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditKind {
    /// The process draws.
    Draws,
    /// The process is one of the processes that draw most.
    DrawsMost,
    /// The process receives input.
    ReceivesInput,
    /// The process is one of the processes that receive most input.
    ReceivesMost,
}

/// The process at the other end of an edge.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// The process at the other end.
    pub tgid: u32,
    /// The process' name.
    pub comm: String,
    /// How often one of the two processes waited for the other lately, halved each second.
    pub weight: u32,
    /// The process' level, if it is in use.
    pub level: Option<u8>,
}
