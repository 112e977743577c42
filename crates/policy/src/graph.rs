//! Who depends on whom: the interprocess graph, bounded for each process (thesis, 8.2).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::Tgid;

/// Edges of each direction that a process keeps.
pub const EDGES_MAX: usize = 12;

/// A process' place in the graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Node(u32);

impl Node {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// One that a process depends on, or that depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// Whom.
    pub on: Tgid,
    /// How often one waited for the other lately, halved each second.
    pub weight: u32,
}

/// A process with its edges, the first so many of each array, in no order. Weights are kept where an edge starts: a round
/// adds to all of them, and seldom asks which of those that end somewhere is the lightest.
#[derive(Clone, Debug)]
struct Process {
    /// `None` while the place is free.
    tgid: Option<Tgid>,
    outgoing_len: u8,
    incoming_len: u8,
    /// Whom it depends on.
    outgoing: [Node; EDGES_MAX],
    weights: [u32; EDGES_MAX],
    /// Who depends on it.
    incoming: [Node; EDGES_MAX],
}

/// Spreads processes' numbers, which are as good as random in their low bits already.
#[derive(Clone, Copy, Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The interprocess graph. An edge runs from the process that waited to the one that ended the waiting.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    processes: Vec<Process>,
    by_tgid: HashMap<Tgid, Node, BuildHasherDefault<NumberHasher>>,
    free: Vec<Node>,
    recycled: u64,
}

impl Process {
    const fn new(tgid: Tgid) -> Process {
        Process {
            tgid: Some(tgid),
            outgoing_len: 0,
            incoming_len: 0,
            outgoing: [Node(0); EDGES_MAX],
            weights: [0; EDGES_MAX],
            incoming: [Node(0); EDGES_MAX],
        }
    }

    fn outgoing(&self) -> &[Node] {
        &self.outgoing[..usize::from(self.outgoing_len)]
    }

    fn incoming(&self) -> &[Node] {
        &self.incoming[..usize::from(self.incoming_len)]
    }

    /// The place of an edge among the outgoing ones.
    fn place(&self, to: Node) -> Option<usize> {
        self.outgoing().iter().position(|&node| node == to)
    }

    fn drop_outgoing(&mut self, to: Node) {
        let Some(place) = self.place(to) else { return };
        self.outgoing_len -= 1;
        let last = usize::from(self.outgoing_len);
        self.outgoing[place] = self.outgoing[last];
        self.weights[place] = self.weights[last];
    }

    fn drop_incoming(&mut self, from: Node) {
        let Some(place) = self.incoming().iter().position(|&node| node == from) else { return };
        self.incoming_len -= 1;
        self.incoming[place] = self.incoming[usize::from(self.incoming_len)];
    }
}

impl Graph {
    /// Nobody depends on anybody.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// `waiter` waited for what `on` did, `times` times. What threads of one process do for each other is no dependency.
    /// A full array's lightest edge gives way, at both of its ends.
    pub fn depend(&mut self, waiter: Tgid, on: Tgid, times: u32) {
        if waiter == on || times == 0 {
            return;
        }
        let (from, to) = (self.node(waiter), self.node(on));
        let process = &mut self.processes[from.at()];
        if let Some(place) = process.place(to) {
            process.weights[place] = process.weights[place].saturating_add(times);
            return;
        }
        let mut place = usize::from(process.outgoing_len);
        if place < EDGES_MAX {
            process.outgoing_len += 1;
        } else {
            place = lightest(&process.weights);
            let gone = process.outgoing[place];
            self.processes[gone.at()].drop_incoming(from);
            self.recycled += 1;
        }
        let process = &mut self.processes[from.at()];
        (process.outgoing[place], process.weights[place]) = (to, times);
        self.arrive(from, to);
    }

    /// Enters the other end of a new edge.
    fn arrive(&mut self, from: Node, to: Node) {
        let process = &mut self.processes[to.at()];
        let mut place = usize::from(process.incoming_len);
        if place < EDGES_MAX {
            process.incoming_len += 1;
        } else {
            let sources = process.incoming;
            place = lightest(&sources.map(|source| self.weight(source, to)));
            self.processes[sources[place].at()].drop_outgoing(to);
            self.recycled += 1;
        }
        self.processes[to.at()].incoming[place] = from;
    }

    fn weight(&self, from: Node, to: Node) -> u32 {
        let process = &self.processes[from.at()];
        process.place(to).map_or(0, |place| process.weights[place])
    }

    /// A process is no more, or has become another program by exec: whatever it depended on, and who on it, is forgotten.
    pub fn remove(&mut self, tgid: Tgid) {
        let Some(node) = self.by_tgid.remove(&tgid) else { return };
        let process = std::mem::replace(&mut self.processes[node.at()], Process::new(tgid));
        self.processes[node.at()].tgid = None;
        process.outgoing().iter().for_each(|to| self.processes[to.at()].drop_incoming(node));
        process.incoming().iter().for_each(|from| self.processes[from.at()].drop_outgoing(node));
        self.free.push(node);
    }

    /// Halves every weight, once a second; edges whose weight becomes 0 are freed, and processes without edges forgotten.
    pub fn halve(&mut self) {
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            process.weights = process.weights.map(|weight| weight / 2);
            // From the last one, for one that goes is replaced by the last.
            for place in (0..usize::from(process.outgoing_len)).rev() {
                let process = &mut self.processes[at];
                if process.weights[place] == 0 {
                    let to = process.outgoing[place];
                    process.drop_outgoing(to);
                    self.processes[to.at()].drop_incoming(Node(at as u32));
                }
            }
        }
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            if let (0, 0, Some(tgid)) = (process.outgoing_len, process.incoming_len, process.tgid) {
                self.remove(tgid);
            }
        }
    }

    /// Whom a process depends on, heaviest first, then by number.
    pub fn outgoing(&self, tgid: Tgid) -> Vec<Edge> {
        let links = self.find(tgid).into_iter().flat_map(|node| self.links(node));
        self.sorted(links)
    }

    /// Who depends on a process (as [`Edge::on`]), heaviest first, then by number.
    pub fn incoming(&self, tgid: Tgid) -> Vec<Edge> {
        let sources = self.find(tgid).into_iter().flat_map(|to| {
            let process = &self.processes[to.at()];
            process.incoming().iter().map(move |&from| (from, self.weight(from, to)))
        });
        self.sorted(sources)
    }

    /// Processes known.
    pub fn len(&self) -> usize {
        self.by_tgid.len()
    }

    /// Whether nobody depends on anybody.
    pub fn is_empty(&self) -> bool {
        self.by_tgid.is_empty()
    }

    /// Edges that gave way to others so far.
    pub const fn recycled(&self) -> u64 {
        self.recycled
    }

    /// Places that processes have or had: every [`Node`] is below.
    pub(crate) fn places(&self) -> usize {
        self.processes.len()
    }

    pub(crate) fn find(&self, tgid: Tgid) -> Option<Node> {
        self.by_tgid.get(&tgid).copied()
    }

    pub(crate) fn tgid(&self, node: Node) -> Option<Tgid> {
        self.processes[node.at()].tgid
    }

    /// Whom a process depends on, with the weights.
    pub(crate) fn links(&self, node: Node) -> impl Iterator<Item = (Node, u32)> {
        let process = &self.processes[node.at()];
        process.outgoing().iter().copied().zip(process.weights)
    }

    fn sorted(&self, links: impl Iterator<Item = (Node, u32)>) -> Vec<Edge> {
        let edge = |(node, weight)| Some(Edge { on: self.tgid(node)?, weight });
        let mut edges: Vec<Edge> = links.filter_map(edge).collect();
        edges.sort_unstable_by_key(|edge| (std::cmp::Reverse(edge.weight), edge.on));
        edges
    }

    fn node(&mut self, tgid: Tgid) -> Node {
        if let Some(node) = self.find(tgid) {
            return node;
        }
        let node = match self.free.pop() {
            Some(node) => {
                self.processes[node.at()] = Process::new(tgid);
                node
            }
            None => {
                self.processes.push(Process::new(tgid));
                Node(self.processes.len() as u32 - 1)
            }
        };
        self.by_tgid.insert(tgid, node);
        node
    }
}

/// The place of the least.
fn lightest(weights: &[u32; EDGES_MAX]) -> usize {
    (0..EDGES_MAX).min_by_key(|&place| weights[place]).unwrap_or(0)
}
