//! The mapped array of nodes: what BPF says of each process, and the verdict's word with which the daemon
//! answers.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use spry_policy::Tgid;

use crate::intf::{spry_collected, spry_edge, spry_limits_SPRY_NODES_MAX, spry_node};
use crate::mapping::Mapping;
use crate::verdict_word::VerdictWord;

/// How many nodes there can be.
pub const NODES_MAX: usize = spry_limits_SPRY_NODES_MAX as usize;

/// How many edges a node can have between two rounds.
pub const EDGES_MAX: usize = crate::intf::spry_limits_SPRY_EDGES_MAX as usize;

/// The name of a node: its index, and how often the index was used before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NodeRef(u32);

impl NodeRef {
    /// A node's name as BPF writes it; `None` for 0, which names no process.
    pub const fn new(name: u32) -> Option<NodeRef> {
        if name == 0 { None } else { Some(NodeRef(name)) }
    }

    /// The node's place in the array.
    pub const fn index(self) -> usize {
        self.0 as usize & (NODES_MAX - 1)
    }
}

/// A `struct spry_edge`, which BPF and the daemon both change.
#[repr(C)]
#[derive(Debug)]
pub struct Edge {
    on: AtomicU32,
    count: AtomicU32,
}

/// A `struct spry_node`, which BPF and the daemon both change.
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

/// A `struct spry_collected`, which BPF and the daemon both change.
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
    /// The process that has the node now, with the node's name.
    pub fn owner(&self) -> Option<(Tgid, NodeRef)> {
        let tgid = self.tgid.load(Ordering::Acquire);
        let name = NodeRef::new(self.name.load(Ordering::Relaxed))?;
        (tgid != 0).then_some((Tgid(tgid), name))
    }

    /// CPU time of the process while the scheduler was in charge, ns.
    pub fn ran_ns(&self) -> u64 {
        self.ran_ns.load(Ordering::Relaxed)
    }

    /// The verdict's word that the node has.
    pub fn verdict(&self) -> VerdictWord {
        VerdictWord::from_bits(self.verdict.load(Ordering::Relaxed))
    }

    /// Takes away the edges of this process: the processes that it waited for since the last call, and how
    /// often.
    pub(crate) fn take_edges(&self) -> impl Iterator<Item = (NodeRef, u32)> + '_ {
        self.edges.iter().filter_map(|edge| {
            // The count is only read first: an exchange would cost both sides the cache line.
            if edge.count.load(Ordering::Relaxed) == 0 {
                return None;
            }
            let on = NodeRef::new(edge.on.load(Ordering::Relaxed))?;
            Some((on, edge.count.swap(0, Ordering::Relaxed)))
        })
    }
}

/// The array of nodes, and what the collection counts, mapped.
#[derive(Debug)]
pub struct Nodes {
    nodes: Mapping,
    counts: Mapping,
}

impl Nodes {
    /// Maps the nodes and the counts.
    ///
    /// # Errors
    /// Where they cannot be mapped.
    pub fn map(nodes: BorrowedFd<'_>, counts: BorrowedFd<'_>) -> io::Result<Nodes> {
        let nodes = Mapping::new(nodes, NODES_MAX * size_of::<Node>())?;
        Ok(Nodes { nodes, counts: Mapping::new(counts, size_of::<spry_collected>())? })
    }

    /// Every node up to the highest index that was ever used.
    pub fn used(&self) -> &[Node] {
        let used = self.counts().used.load(Ordering::Relaxed) as usize;
        // SAFETY: a node is made of atomics, and valid whatever its bytes.
        unsafe { self.nodes.slice(used.min(NODES_MAX)) }
    }

    /// A node's place, whichever process has it.
    pub fn at(&self, name: NodeRef) -> Option<&Node> {
        self.used().get(name.index())
    }

    /// The process of a node, if the node still has this name.
    pub fn owner(&self, name: NodeRef) -> Option<Tgid> {
        let (tgid, now) = self.at(name)?.owner()?;
        (now == name).then_some(tgid)
    }

    /// Writes a verdict's word into a node, if the node still has this name. Returns the word that the node
    /// had before.
    pub fn set_verdict(&self, name: NodeRef, word: VerdictWord) -> VerdictWord {
        let Some(node) = self.at(name) else { return word };
        if node.verdict() == word || self.owner(name).is_none() {
            return word;
        }
        let before = VerdictWord::from_bits(node.verdict.swap(word.bits(), Ordering::SeqCst));
        // If another process took the node over meanwhile, the verdict was not about that process.
        if self.owner(name).is_none() {
            let (word, none) = (word.bits(), VerdictWord::NONE.bits());
            let _ = node.verdict.compare_exchange(word, none, Ordering::SeqCst, Ordering::Relaxed);
        }
        before
    }

    /// How many nodes belong to a process now.
    pub fn taken(&self) -> usize {
        self.counts().taken.load(Ordering::Relaxed) as usize
    }

    /// How many edges found no place or gave way to others since the programs were loaded.
    pub fn lost_edges(&self) -> u64 {
        self.counts().lost_edges.load(Ordering::Relaxed)
    }

    /// How often a process that needed a node found none since the programs were loaded.
    pub fn lost_nodes(&self) -> u64 {
        self.counts().lost_nodes.load(Ordering::Relaxed)
    }

    fn counts(&self) -> &Counts {
        // SAFETY: the counts are made of atomics, and valid whatever their bytes are.
        let counts: &[Counts] = unsafe { self.counts.slice(1) };
        &counts[0]
    }
}
