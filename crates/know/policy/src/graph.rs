//! The interprocess graph: the dependencies between processes, bounded for each process (thesis, 8.2).

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::Tgid;

/// The most outgoing edges, and the most incoming edges, that a process keeps.
pub const EDGES_MAX: usize = 12;

/// A process' place in the graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Node(u32);

impl Node {
    pub(crate) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// One edge of a process: the other process, and the weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The process at the other end.
    pub on: Tgid,
    /// The number of recent waits of one process for the other; the number is halved each second.
    pub weight: u32,
}

/// A process with its edges. In each array the first entries are used, in no order. Weights are kept where
/// an edge starts: a round adds to the weights of all edges, and seldom needs the lightest of the edges that
/// end at a process.
#[derive(Clone, Debug)]
struct Process {
    /// `None` while the place is free.
    tgid: Option<Tgid>,
    outgoing_len: u8,
    incoming_len: u8,
    /// The processes that this process depends on.
    outgoing: [Node; EDGES_MAX],
    weights: [u32; EDGES_MAX],
    /// The processes that depend on this process.
    incoming: [Node; EDGES_MAX],
}

/// A hash for the numbers of processes. The low bits of these numbers are as good as random already.
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

/// The interprocess graph. An edge runs from the process that waited to the process that ended the wait.
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

    /// The index of the edge to the process `to` in the array of outgoing edges.
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
    /// A graph without edges.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Notes that the process `waiter` waited `times` times for an action of the process `on`. Threads of one
    /// process that wait for each other make no edge. If an array of edges is full, its lightest edge is
    /// removed from the processes at both of its ends.
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

    /// Adds a new edge to the incoming edges of the process at which it ends.
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

    /// Removes all edges, in both directions, of a process that has exited, or has become another
    /// program by exec.
    pub fn remove(&mut self, tgid: Tgid) {
        let Some(node) = self.by_tgid.remove(&tgid) else { return };
        let process = std::mem::replace(&mut self.processes[node.at()], Process::new(tgid));
        self.processes[node.at()].tgid = None;
        process.outgoing().iter().for_each(|to| self.processes[to.at()].drop_incoming(node));
        process.incoming().iter().for_each(|from| self.processes[from.at()].drop_outgoing(node));
        self.free.push(node);
    }

    /// Halves every weight; called once a second. Edges with a weight of 0 are freed then, and processes
    /// without edges are forgotten.
    pub fn halve(&mut self) {
        for at in 0..self.processes.len() {
            let process = &mut self.processes[at];
            process.weights = process.weights.map(|weight| weight / 2);
            // The loop goes from the last edge to the first, because the last edge moves to the place of an
            // edge that is removed.
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

    /// The part of the graph that can be reached from the given processes over processes that `is_among`
    /// admits, with the weights of its edges.
    #[must_use]
    pub fn among(
        &self,
        from: impl IntoIterator<Item = Tgid>,
        mut is_among: impl FnMut(Tgid) -> bool,
    ) -> Graph {
        let mut part = Graph::new();
        let mut next: Vec<Node> = from.into_iter().filter_map(|tgid| self.find(tgid)).collect();
        let mut known: BTreeSet<Node> = next.iter().copied().collect();
        let mut left_out = BTreeSet::new();
        while let Some(node) = next.pop() {
            let Some(waiter) = self.tgid(node) else { continue };
            for (to, weight) in self.links(node) {
                let Some(on) = self.tgid(to).filter(|_| !left_out.contains(&to)) else { continue };
                if !known.contains(&to) {
                    if !is_among(on) {
                        left_out.insert(to);
                        continue;
                    }
                    known.insert(to);
                    next.push(to);
                }
                part.depend(waiter, on, weight);
            }
        }
        part
    }

    /// The processes that a process depends on, heaviest edge first, then by number.
    pub fn outgoing(&self, tgid: Tgid) -> Vec<Edge> {
        let links = self.find(tgid).into_iter().flat_map(|node| self.links(node));
        self.sorted(links)
    }

    /// The processes that depend on a process (as [`Edge::on`]), heaviest edge first, then by number.
    pub fn incoming(&self, tgid: Tgid) -> Vec<Edge> {
        let sources = self.find(tgid).into_iter().flat_map(|to| {
            let process = &self.processes[to.at()];
            process.incoming().iter().map(move |&from| (from, self.weight(from, to)))
        });
        self.sorted(sources)
    }

    /// The number of processes in the graph.
    pub fn len(&self) -> usize {
        self.by_tgid.len()
    }

    /// Whether the graph has no processes.
    pub fn is_empty(&self) -> bool {
        self.by_tgid.is_empty()
    }

    /// The number of edges that were removed so far because an array was full.
    pub const fn recycled(&self) -> u64 {
        self.recycled
    }

    /// The number of places for processes that were ever made: each [`Node`] is a number below this.
    pub(crate) fn places(&self) -> usize {
        self.processes.len()
    }

    pub(crate) fn find(&self, tgid: Tgid) -> Option<Node> {
        self.by_tgid.get(&tgid).copied()
    }

    pub(crate) fn tgid(&self, node: Node) -> Option<Tgid> {
        self.processes[node.at()].tgid
    }

    /// The nodes that a node depends on, with the weights.
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

/// The index of the least weight.
fn lightest(weights: &[u32; EDGES_MAX]) -> usize {
    (0..EDGES_MAX).min_by_key(|&place| weights[place]).unwrap_or(0)
}
