//! Who depends on whom: the interprocess graph, bounded for each process (thesis, 8.2).

use std::collections::HashMap;

use crate::Tgid;

/// Edges of each direction that a process keeps.
pub const EDGES_MAX: usize = 12;

/// A process' place in the graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
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

#[derive(Clone, Copy, Debug)]
struct Link {
    node: Node,
    weight: u32,
}

/// Edges of one direction of one process, in no order.
#[derive(Clone, Debug, Default)]
struct Links {
    list: [Option<Link>; EDGES_MAX],
}

#[derive(Clone, Debug)]
struct Process {
    /// `None` while the place is free.
    tgid: Option<Tgid>,
    /// Whom it depends on.
    outgoing: Links,
    /// Who depends on it.
    incoming: Links,
}

/// The interprocess graph. An edge runs from the process that waited to the one that ended the waiting.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    processes: Vec<Process>,
    by_tgid: HashMap<Tgid, Node>,
    free: Vec<Node>,
    recycled: u64,
}

impl Links {
    fn find(&mut self, node: Node) -> Option<&mut Link> {
        self.list.iter_mut().flatten().find(|link| link.node == node)
    }

    /// Puts a link in, and returns the lightest one if it had to go.
    fn put(&mut self, link: Link) -> Option<Link> {
        if let Some(free) = self.list.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(link);
            return None;
        }
        let lightest = self.list.iter_mut().min_by_key(|slot| slot.map_or(0, |link| link.weight))?;
        lightest.replace(link)
    }

    fn remove(&mut self, node: Node) {
        for slot in &mut self.list {
            if slot.is_some_and(|link| link.node == node) {
                *slot = None;
            }
        }
    }

    fn nodes(&self) -> impl Iterator<Item = Node> {
        self.list.iter().flatten().map(|link| link.node)
    }

    fn halve(&mut self) {
        for slot in &mut self.list {
            *slot = slot.map(|link| Link { weight: link.weight / 2, ..link }).filter(|link| link.weight > 0);
        }
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
        let (out, back) = (from.at(), to.at());
        if let Some(link) = self.processes[out].outgoing.find(to) {
            link.weight = link.weight.saturating_add(times);
            let weight = link.weight;
            if let Some(mirror) = self.processes[back].incoming.find(from) {
                mirror.weight = weight;
            }
            return;
        }
        if let Some(gone) = self.processes[out].outgoing.put(Link { node: to, weight: times }) {
            self.processes[gone.node.at()].incoming.remove(from);
            self.recycled += 1;
        }
        if let Some(gone) = self.processes[back].incoming.put(Link { node: from, weight: times }) {
            self.processes[gone.node.at()].outgoing.remove(to);
            self.recycled += 1;
        }
    }

    /// A process is no more, or has become another program by exec: whatever it depended on, and who on it, is forgotten.
    pub fn remove(&mut self, tgid: Tgid) {
        let Some(node) = self.by_tgid.remove(&tgid) else { return };
        let process = &mut self.processes[node.at()];
        process.tgid = None;
        let (outgoing, incoming) =
            (std::mem::take(&mut process.outgoing), std::mem::take(&mut process.incoming));
        outgoing.nodes().for_each(|to| self.processes[to.at()].incoming.remove(node));
        incoming.nodes().for_each(|from| self.processes[from.at()].outgoing.remove(node));
        self.free.push(node);
    }

    /// Halves every weight, once a second; edges whose weight becomes 0 are freed, and processes without edges forgotten.
    pub fn halve(&mut self) {
        for process in &mut self.processes {
            process.outgoing.halve();
            process.incoming.halve();
        }
        for at in 0..self.processes.len() {
            let process = &self.processes[at];
            let is_alone = process.outgoing.nodes().chain(process.incoming.nodes()).next().is_none();
            if let (true, Some(tgid)) = (is_alone, process.tgid) {
                self.remove(tgid);
            }
        }
    }

    /// Whom a process depends on, heaviest first, then by number.
    pub fn outgoing(&self, tgid: Tgid) -> Vec<Edge> {
        self.edges(tgid, |process| &process.outgoing)
    }

    /// Who depends on a process (as [`Edge::on`]), heaviest first, then by number.
    pub fn incoming(&self, tgid: Tgid) -> Vec<Edge> {
        self.edges(tgid, |process| &process.incoming)
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

    pub(crate) fn find(&self, tgid: Tgid) -> Option<Node> {
        self.by_tgid.get(&tgid).copied()
    }

    pub(crate) fn tgid(&self, node: Node) -> Option<Tgid> {
        self.processes[node.at()].tgid
    }

    /// Whom a process depends on, with the weights.
    pub(crate) fn links(&self, node: Node) -> impl Iterator<Item = (Node, u32)> {
        self.processes[node.at()].outgoing.list.iter().flatten().map(|link| (link.node, link.weight))
    }

    fn edges(&self, tgid: Tgid, links: impl Fn(&Process) -> &Links) -> Vec<Edge> {
        let Some(node) = self.find(tgid) else { return Vec::new() };
        let edge = |link: &Link| Some(Edge { on: self.tgid(link.node)?, weight: link.weight });
        let mut edges: Vec<Edge> =
            links(&self.processes[node.at()]).list.iter().flatten().filter_map(edge).collect();
        edges.sort_unstable_by_key(|edge| (std::cmp::Reverse(edge.weight), edge.on));
        edges
    }

    fn node(&mut self, tgid: Tgid) -> Node {
        if let Some(node) = self.find(tgid) {
            return node;
        }
        let process = Process { tgid: Some(tgid), outgoing: Links::default(), incoming: Links::default() };
        let node = match self.free.pop() {
            Some(node) => {
                self.processes[node.at()] = process;
                node
            }
            None => {
                self.processes.push(process);
                Node(self.processes.len() as u32 - 1)
            }
        };
        self.by_tgid.insert(tgid, node);
        node
    }
}
