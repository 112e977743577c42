//! Why a process is in use, or why not.

use serde::{Deserialize, Serialize};

use crate::{State, Task};

/// The whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// As in the status.
    #[serde(flatten)]
    pub task: Task,
    /// Whether the user's information passes through it.
    pub in_use: bool,
    /// What the shortcut is made of: earned by itself, or by the process on its way that told the most.
    pub credits: Vec<Credit>,
    /// Who earned it: the process itself, or one before it on its way.
    pub credits_of: Option<u32>,
    /// Whom it waits for, heaviest first; null where dependencies cannot be seen.
    pub depends_on: Option<Vec<Neighbour>>,
    /// Who waits for it, heaviest first; null likewise.
    pub needed_by: Option<Vec<Neighbour>>,
    /// Half edges that every step costs.
    pub edge_length: u16,
    /// Who decided its class, where that was by hand.
    pub set_by_uid: Option<u32>,
    /// What the daemon does.
    pub state: State,
    /// What acts: `scx`, `fair`, or `none`.
    pub actuator: String,
}

/// A part of a shortcut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Credit {
    /// What for.
    pub kind: CreditKind,
    /// How much, in half edges.
    pub half_edges: u16,
}

/// What shortcuts are given for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditKind {
    /// It draws.
    Draws,
    /// It is among those who draw most.
    DrawsMost,
    /// It receives input.
    ReceivesInput,
    /// It is among those who receive most input.
    ReceivesMost,
}

/// The other end of an edge.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    /// Who.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// How often one waited for the other lately, halved each second.
    pub weight: u32,
    /// Its level, if it is in use.
    pub level: Option<u8>,
}
