//! What is found of processes that talk to each other.

use serde::Serialize;
use spry_trace::Tgid;
use spry_trace::event::{ChannelKind, Comm, Direction};

use super::comm_as_text;

/// Who wakes whom and sends bytes to whom; thread groups are the nodes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Graph {
    /// Every process that has an edge, by run time.
    pub nodes: Vec<Node>,
    /// Between different processes, by wake-ups.
    pub edges: Vec<Edge>,
    /// What is reachable from the root along edges in either direction; `None` if no root was chosen or found.
    pub component: Option<Component>,
    /// Wake-ups by interrupts and unknown wakers, which make no edges.
    pub wakeups_without_task: u64,
    /// Wake-ups on edges beyond the limit kept.
    pub wakeups_dropped: u64,
    /// Bytes read whose writers the trace does not show; `None` without group `ipc`.
    pub bytes_without_writer: Option<u64>,
}

/// A process in the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Node {
    /// Process.
    pub tgid: Tgid,
    /// Its leader's name, or that of its first known thread.
    #[serde(serialize_with = "comm_as_text")]
    pub comm: Comm,
    /// Threads seen.
    pub threads: u32,
    /// Run time of all of them.
    pub runtime_ns: u64,
    /// Wake-ups between its own threads.
    pub inner_wakeups: u64,
    /// Steps from the root; `None` outside the component.
    pub distance: Option<u32>,
}

/// From the waker or writer to the wakee or reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Edge {
    /// Waker or writer.
    pub from_tgid: Tgid,
    /// Wakee or reader.
    pub to_tgid: Tgid,
    /// Wake-ups by tasks (not interrupts).
    pub wakeups: u64,
    /// Bytes read by `to` that `from` wrote; `None` without group `ipc`.
    pub bytes: Option<u64>,
}

/// The connected component of a root.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Component {
    /// The root.
    pub root_tgid: Tgid,
    /// Its members with the root, nearest first.
    pub tgids: Vec<Tgid>,
}

/// Channels between processes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Channels {
    /// Those with the most bytes.
    pub top: Vec<ChannelFinding>,
    /// Channels seen.
    pub seen: u64,
    /// Bytes through channels that are not in `top`.
    pub other_bytes: u64,
}

/// One channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelFinding {
    /// What it is.
    pub kind: ChannelKind,
    /// Its id.
    pub id: u64,
    /// Bytes written into it.
    pub written_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Who used it, at most 8.
    pub users: Vec<ChannelUser>,
}

/// A process at one end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ChannelUser {
    /// Process.
    pub tgid: Tgid,
    /// Its name.
    #[serde(serialize_with = "comm_as_text")]
    pub comm: Comm,
    /// Which end.
    pub direction: Direction,
    /// Bytes.
    pub bytes: u64,
}
