//! Breadth-first search from the interactive devices: who is how far from the user, by which way, with which shortcut
//! (thesis, 8.3.2).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Tgid;
use crate::constants::{Constants, ServerEdges};
use crate::graph::{Graph, Node};

/// Over whom the way to the device leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// It is the device's own process: the display server.
    Device,
    /// Straight to the device, which told of it.
    Direct,
    /// Over a process that depends on it, with the weight of that edge.
    Process(Tgid, u32),
}

/// What the search says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// In half edges.
    pub distance: u16,
    /// The largest of all shortest ways, in half edges.
    pub shortcut: u16,
    /// The way of that shortcut.
    pub via: Via,
}

/// The processes in reach of the user, each once, in no order that matters.
pub(crate) type Reached = Vec<(Tgid, Found)>;

/// Searches from the processes of devices and from those that devices told of, who have shortcuts of their own.
pub(crate) fn search(
    graph: &Graph,
    servers: &[Tgid],
    explicit: &BTreeMap<Tgid, u16>,
    constants: &Constants,
) -> Reached {
    let mut search = Search {
        reached: Vec::with_capacity(graph.len()),
        at: vec![NOBODY; graph.places()],
        next: Vec::new(),
    };
    for &server in servers {
        let way = Found { distance: 0, shortcut: 0, via: Via::Device };
        search.start(graph, server, way);
    }
    // The device told of them, so they are one edge from it, whether or not the graph knows (direct rendering).
    for (&tgid, &shortcut) in explicit.iter().filter(|(tgid, _)| !servers.contains(tgid)) {
        let way = Found { distance: constants.edge_length, shortcut, via: Via::Direct };
        search.start(graph, tgid, way);
    }
    // Servers come before those one edge away, so the queue is in order of distance.
    let mut done = 0;
    while let Some(&node) = search.next.get(done) {
        done += 1;
        let (tgid, from) = search.reached[search.at[node.at()] as usize];
        let distance = from.distance + constants.edge_length;
        let is_told_of = from.via == Via::Device && constants.server_edges == ServerEdges::Told;
        if distance > constants.distance_max || is_told_of {
            continue;
        }
        for (on, weight) in graph.links(node) {
            // One explicit process behind another: the larger shortcut, never the sum.
            let way = Found { distance, shortcut: from.shortcut, via: Via::Process(tgid, weight) };
            search.reach(graph, on, way);
        }
    }
    search.reached
}

/// No place in the list.
const NOBODY: u32 = u32::MAX;

struct Search {
    reached: Reached,
    /// Where each node is in the list.
    at: Vec<u32>,
    /// Nodes in the order in which they were reached.
    next: Vec<Node>,
}

impl Search {
    /// One to search from. Who is not in the graph leads nowhere.
    fn start(&mut self, graph: &Graph, tgid: Tgid, way: Found) {
        match graph.find(tgid) {
            Some(node) => self.reach(graph, node, way),
            None if self.reached.iter().all(|&(known, _)| known != tgid) => self.reached.push((tgid, way)),
            None => {}
        }
    }

    /// A way to a process. The shortest counts; of equal ones that with the largest shortcut, then the heaviest edge, then the
    /// lower number.
    fn reach(&mut self, graph: &Graph, node: Node, way: Found) {
        let at = self.at[node.at()];
        if at == NOBODY {
            let Some(tgid) = graph.tgid(node) else { return };
            self.at[node.at()] = self.reached.len() as u32;
            self.reached.push((tgid, way));
            self.next.push(node);
            return;
        }
        let known = &mut self.reached[at as usize].1;
        if way.distance == known.distance && preference(&way) > preference(known) {
            *known = way;
        }
    }
}

/// Among equally long ways.
fn preference(way: &Found) -> (u16, u32, Reverse<Tgid>) {
    match way.via {
        Via::Device | Via::Direct => (way.shortcut, u32::MAX, Reverse(Tgid(0))),
        Via::Process(tgid, weight) => (way.shortcut, weight, Reverse(tgid)),
    }
}
