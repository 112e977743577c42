//! The mapped array of nodes. Into each node, BPF programs write a process' dependencies and run time, and
//! the daemon writes its verdict.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use spry_policy::Tgid;

use crate::intf::{spry_collected, spry_edge, spry_limits_SPRY_NODES_MAX, spry_node};
use crate::mapping::Mapping;
use crate::verdict_word::VerdictWord;

/// The greatest number of nodes.
pub const NODES_MAX: usize = spry_limits_SPRY_NODES_MAX as usize;

/// The greatest number of edges of a node between two rounds of the daemon.
pub const EDGES_MAX: usize = crate::intf::spry_limits_SPRY_EDGES_MAX as usize;

/// The name of a node: the node's index, and a count of the index's uses. So the name of a reused index
/// differs from the earlier name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeRef(u32);

impl NodeRef {
    /// A node's name as BPF writes it; `None` for 0, which names no process.
    pub const fn new(name: u32) -> Option<NodeRef> {
        if name == 0 { None } else { Some(NodeRef(name)) }
    }

    /// The node's index in the array.
    pub const fn index(self) -> usize {
        self.0 as usize & (NODES_MAX - 1)
    }
}

/// A `struct spry_edge`. Both BPF programs and the daemon change it.
#[repr(C)]
#[derive(Debug)]
pub struct Edge {
    on: AtomicU32,
    count: AtomicU32,
}

/// A `struct spry_node`. Both BPF programs and the daemon change it.
#[repr(C)]
#[derive(Debug)]
pub struct Node {
    tgid: AtomicU32,
    name: AtomicU32,
    verdict: AtomicU64,
    ran_ns: AtomicU64,
    user: AtomicU32,
    pad: AtomicU32,
    edges: [Edge; EDGES_MAX],
}

/// A `struct spry_collected`. BPF programs change it; the daemon reads it.
#[repr(C)]
#[derive(Debug)]
struct Counts {
    used: AtomicU32,
    taken: AtomicU32,
    lost_nodes: AtomicU64,
    lost_edges: AtomicU64,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Node>() == size_of::<spry_node>() && size_of::<Edge>() == size_of::<spry_edge>());
    assert!(offset_of!(Node, tgid) == offset_of!(spry_node, tgid));
    assert!(offset_of!(Node, name) == offset_of!(spry_node, ref_));
    assert!(offset_of!(Node, verdict) == offset_of!(spry_node, verdict));
    assert!(offset_of!(Node, ran_ns) == offset_of!(spry_node, ran_ns));
    assert!(offset_of!(Node, user) == offset_of!(spry_node, user));
    assert!(offset_of!(Node, edges) == offset_of!(spry_node, edges));
    assert!(offset_of!(Edge, on) == offset_of!(spry_edge, on));
    assert!(offset_of!(Edge, count) == offset_of!(spry_edge, count));
    assert!(size_of::<Counts>() == size_of::<spry_collected>());
    assert!(offset_of!(Counts, used) == offset_of!(spry_collected, used));
    assert!(offset_of!(Counts, taken) == offset_of!(spry_collected, taken));
    assert!(offset_of!(Counts, lost_nodes) == offset_of!(spry_collected, lost_nodes));
    assert!(offset_of!(Counts, lost_edges) == offset_of!(spry_collected, lost_edges));
    assert!(NODES_MAX.is_power_of_two() && NODES_MAX <= 1 << 16);
};

impl Node {
    /// The process that has the node now, and the node's present name; `None` if the node is free.
    pub fn owner(&self) -> Option<(Tgid, NodeRef)> {
        let tgid = self.tgid.load(Ordering::Acquire);
        let name = NodeRef::new(self.name.load(Ordering::Relaxed))?;
        (tgid != 0).then_some((Tgid(tgid), name))
    }

    /// CPU time of the process since it got the node, while the scheduler in the kernel ran, ns.
    pub fn ran_ns(&self) -> u64 {
        self.ran_ns.load(Ordering::Relaxed)
    }

    /// The verdict in the node.
    pub fn verdict(&self) -> VerdictWord {
        VerdictWord::from_bits(self.verdict.load(Ordering::Relaxed))
    }

    /// The processes for which this process has waited since the last call, with the numbers of waits. Sets
    /// the counts to 0.
    pub(crate) fn take_edges(&self) -> impl Iterator<Item = (NodeRef, u32)> + '_ {
        self.edges.iter().filter_map(|edge| {
            // The count is read before the exchange, since an exchange always moves the cache
            // line between CPUs.
            if edge.count.load(Ordering::Relaxed) == 0 {
                return None;
            }
            let on = NodeRef::new(edge.on.load(Ordering::Relaxed))?;
            Some((on, edge.count.swap(0, Ordering::Relaxed)))
        })
    }
}

/// The array of nodes and the collection's counters, mapped.
#[derive(Debug)]
pub struct Nodes {
    nodes: Mapping,
    counts: Mapping,
}

impl Nodes {
    /// Maps the nodes and the counters.
    ///
    /// # Errors
    /// If the kernel cannot map them.
    pub fn map(nodes: BorrowedFd<'_>, counts: BorrowedFd<'_>) -> io::Result<Nodes> {
        let nodes = Mapping::new(nodes, NODES_MAX * size_of::<Node>())?;
        Ok(Nodes { nodes, counts: Mapping::new(counts, size_of::<spry_collected>())? })
    }

    /// All nodes up to the highest index that was ever used.
    pub fn used(&self) -> &[Node] {
        let used = self.counts().used.load(Ordering::Relaxed) as usize;
        // SAFETY: a node is made of atomics, and valid whatever its bytes.
        unsafe { self.nodes.slice(used.min(NODES_MAX)) }
    }

    /// The node at a name's index, whichever process has it now.
    pub fn at(&self, name: NodeRef) -> Option<&Node> {
        self.used().get(name.index())
    }

    /// The process of a node, if the node still has this name.
    pub fn owner(&self, name: NodeRef) -> Option<Tgid> {
        let (tgid, now) = self.at(name)?.owner()?;
        (now == name).then_some(tgid)
    }

    /// Writes a verdict into a node, if the node still has this name. Returns the verdict that the node had
    /// before; without a change, the new verdict.
    pub fn set_verdict(&self, name: NodeRef, word: VerdictWord) -> VerdictWord {
        let Some(node) = self.at(name) else { return word };
        if node.verdict() == word || self.owner(name).is_none() {
            return word;
        }
        let before = VerdictWord::from_bits(node.verdict.swap(word.bits(), Ordering::SeqCst));
        // Another process may have taken the node meanwhile. The verdict is not about that process,
        // so it is removed.
        if self.owner(name).is_none() {
            let (word, none) = (word.bits(), VerdictWord::NONE.bits());
            let _ = node.verdict.compare_exchange(word, none, Ordering::SeqCst, Ordering::Relaxed);
        }
        before
    }

    /// The number of nodes that belong to a process now.
    pub fn taken(&self) -> usize {
        self.counts().taken.load(Ordering::Relaxed) as usize
    }

    /// The number of edges that found no room or were replaced since the programs were loaded.
    pub fn lost_edges(&self) -> u64 {
        self.counts().lost_edges.load(Ordering::Relaxed)
    }

    /// The number of times that a process needed a node and got none, since the programs were loaded.
    pub fn lost_nodes(&self) -> u64 {
        self.counts().lost_nodes.load(Ordering::Relaxed)
    }

    fn counts(&self) -> &Counts {
        // SAFETY: the counts are made of atomics, and valid whatever their bytes are.
        let counts: &[Counts] = unsafe { self.counts.slice(1) };
        &counts[0]
    }
}
