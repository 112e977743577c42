//! Results on processes that wake each other or exchange bytes.

use serde::Serialize;
use spry_trace::Tgid;
use spry_trace::event::{ChannelKind, Comm, Direction};

use super::comm_as_text;

/// The graph of wake-ups and bytes between processes; thread groups are the nodes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Graph {
    /// Every process that has an edge or wakes threads of its own, longest run time first.
    pub nodes: Vec<Node>,
    /// The edges between different processes, in order of wake-ups.
    pub edges: Vec<Edge>,
    /// The processes that can be reached from the root along edges in either direction; `None` if no root was
    /// chosen or found.
    pub component: Option<Component>,
    /// Wake-ups by interrupts and unknown wakers, which make no edges.
    pub wakeups_without_task: u64,
    /// Wake-ups on edges that were not kept, since there were too many edges.
    pub wakeups_dropped: u64,
    /// Bytes that were read and that no writer in the trace wrote; `None` without group `ipc`.
    pub bytes_without_writer: Option<u64>,
}

/// A process in the graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Node {
    /// The process's number.
    pub tgid: Tgid,
    /// The name of the process's leader, or of its first known thread.
    #[serde(serialize_with = "comm_as_text")]
    pub comm: Comm,
    /// How many threads of the process were seen.
    pub threads: u32,
    /// Run time of all threads of the process.
    pub runtime_ns: u64,
    /// Wake-ups between the process's own threads.
    pub inner_wakeups: u64,
    /// Steps from the root; `None` outside the component.
    pub distance: Option<u32>,
}

/// An edge of the graph, from the process that wakes or writes to the process that is woken or reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Edge {
    /// The process that wakes or writes.
    pub from_tgid: Tgid,
    /// The process that is woken or reads.
    pub to_tgid: Tgid,
    /// Wake-ups by tasks (not interrupts).
    pub wakeups: u64,
    /// Bytes read by `to` that `from` wrote; `None` without group `ipc`.
    pub bytes: Option<u64>,
}

/// The connected component of a root.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Component {
    /// The process from which the component was searched.
    pub root_tgid: Tgid,
    /// The processes of the component, the root among them, nearest to the root first.
    pub tgids: Vec<Tgid>,
}

/// Channels between processes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Channels {
    /// The channels with the most bytes.
    pub top: Vec<ChannelFinding>,
    /// The number of channels seen. If it is above [`Channels::SEEN_MAX`], it is the least number: there may
    /// be more channels.
    pub seen: u64,
    /// Bytes through channels that are not in `top`. If there are more than [`Channels::SEEN_MAX`] channels,
    /// it is the least number.
    pub other_bytes: u64,
}

impl Channels {
    /// How many channels are told apart at most.
    pub const SEEN_MAX: usize = 1 << 15;
}

/// A pipe, socket or terminal through which processes sent bytes.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelFinding {
    /// The kind of the channel.
    pub kind: ChannelKind,
    /// The channel's id.
    pub id: u64,
    /// Bytes written into the channel.
    pub written_bytes: u64,
    /// Bytes read from the channel.
    pub read_bytes: u64,
    /// The processes that used the channel, at most 8.
    pub users: Vec<ChannelUser>,
}

/// A process at one end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ChannelUser {
    /// The process's number.
    pub tgid: Tgid,
    /// The process's name.
    #[serde(serialize_with = "comm_as_text")]
    pub comm: Comm,
    /// Whether the process wrote into the channel or read from it.
    pub direction: Direction,
    /// How many bytes the process wrote or read.
    pub bytes: u64,
}
