//! Breadth-first search from the interactive devices: the distance of each process from the user, its way,
//! and its shortcut (thesis, 8.3.2).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::Tgid;
use crate::constants::{Constants, ServerEdges};
use crate::graph::{Graph, Node};

/// The first step of the way from a process to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// The process is the device's own process: the display server.
    Device,
    /// The way goes straight to the device, because the device reported the process itself.
    Direct,
    /// The way goes over another process that depends on this process; the number is the weight of that edge.
    Process(Tgid, u32),
}

/// The result of the search for a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The distance of the process from the device, in half edges.
    pub distance: u16,
    /// The largest shortcut of all shortest ways to the process, in half edges.
    pub shortcut: u16,
    /// The way that has this shortcut.
    pub via: Via,
}

/// The processes in reach of the user, each once, in no order that matters.
pub(crate) type Reach = Vec<(Tgid, Way)>;

/// Searches from the devices' own processes and from the processes that devices reported; the latter have
/// shortcuts of their own.
pub(crate) fn search(
    graph: &Graph,
    servers: &[Tgid],
    explicit: &BTreeMap<Tgid, u16>,
    constants: &Constants,
) -> Reach {
    let mut search = Search {
        reached: Vec::with_capacity(graph.len()),
        at: vec![NOBODY; graph.places()],
        next: Vec::new(),
    };
    for &server in servers {
        let way = Way { distance: 0, shortcut: 0, via: Via::Device };
        search.start(graph, server, way);
    }
    // The device reported these processes, so they are one edge from it, also where the graph has no such
    // edge (direct rendering).
    for (&tgid, &shortcut) in explicit.iter().filter(|(tgid, _)| !servers.contains(tgid)) {
        let way = Way { distance: constants.edge_length, shortcut, via: Via::Direct };
        search.start(graph, tgid, way);
    }
    // The servers stand in the queue before the processes that are one edge away, so the queue is in order of
    // distance.
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
            // If one explicitly interactive process is reached over another, the larger shortcut counts,
            // never the sum.
            let way = Way { distance, shortcut: from.shortcut, via: Via::Process(tgid, weight) };
            search.reach(graph, on, way);
        }
    }
    search.reached
}

/// Marks a node that is not in the list yet.
const NOBODY: u32 = u32::MAX;

struct Search {
    reached: Reach,
    /// The index of each node in the list of processes that are reached.
    at: Vec<u32>,
    /// Nodes in the order in which they were reached.
    next: Vec<Node>,
}

impl Search {
    /// Begins the search at a process. From a process that is not in the graph the search goes no further.
    fn start(&mut self, graph: &Graph, tgid: Tgid, way: Way) {
        match graph.find(tgid) {
            Some(node) => self.reach(graph, node, way),
            None if self.reached.iter().all(|&(known, _)| known != tgid) => self.reached.push((tgid, way)),
            None => {}
        }
    }

    /// Enters a way to a process. The shortest way counts. Of equally short ways the way with the
    /// largest shortcut counts, then the way with the heaviest edge, then the way over the process with
    /// the lower number.
    fn reach(&mut self, graph: &Graph, node: Node, way: Way) {
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

/// The order of ways that are equally long: the way with the largest value is preferred.
fn preference(way: &Way) -> (u16, u32, Reverse<Tgid>) {
    match way.via {
        Via::Device | Via::Direct => (way.shortcut, u32::MAX, Reverse(Tgid(0))),
        Via::Process(tgid, weight) => (way.shortcut, weight, Reverse(tgid)),
    }
}
