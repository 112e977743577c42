//! Breadth-first search from the interactive devices: who is how far from the user, by which way, with which shortcut
//! (thesis, 8.3.2).

use std::collections::{BTreeMap, VecDeque};

use crate::Tgid;
use crate::constants::Constants;
use crate::graph::Graph;

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

/// A process in reach of the user.
pub(crate) type Reached = BTreeMap<Tgid, Found>;

/// Searches from the processes of devices and from those that devices told of, who have shortcuts of their own.
pub(crate) fn search(
    graph: &Graph,
    servers: &[Tgid],
    explicit: &BTreeMap<Tgid, u16>,
    constants: &Constants,
) -> Reached {
    let mut search = Search { reached: Reached::new(), next: VecDeque::new() };
    for &server in servers {
        search.reach(server, Found { distance: 0, shortcut: 0, via: Via::Device });
    }
    // The device told of them, so they are one edge from it, whether or not the graph knows (direct rendering).
    for (&tgid, &shortcut) in explicit {
        search.reach(tgid, Found { distance: constants.edge_length, shortcut, via: Via::Direct });
    }
    // Servers come before those one edge away, so the queue is in order of distance.
    while let Some(tgid) = search.next.pop_front() {
        let (Some(node), Some(&from)) = (graph.find(tgid), search.reached.get(&tgid)) else { continue };
        let distance = from.distance + constants.edge_length;
        if distance > constants.distance_max {
            continue;
        }
        for (on, weight) in graph.links(node) {
            let Some(on) = graph.tgid(on) else { continue };
            // One explicit process behind another: the larger shortcut, never the sum.
            search.reach(on, Found { distance, shortcut: from.shortcut, via: Via::Process(tgid, weight) });
        }
    }
    search.reached
}

struct Search {
    reached: Reached,
    next: VecDeque<Tgid>,
}

impl Search {
    /// A way to a process. The shortest counts; of equal ones that with the largest shortcut, then the heaviest edge, then the
    /// lower number.
    fn reach(&mut self, tgid: Tgid, way: Found) {
        match self.reached.get_mut(&tgid) {
            None => {
                self.reached.insert(tgid, way);
                self.next.push_back(tgid);
            }
            Some(known) => {
                let is_better = way.distance == known.distance && preference(&way) > preference(known);
                if is_better {
                    *known = way;
                }
            }
        }
    }
}

/// Among equally long ways.
fn preference(way: &Found) -> (u16, u32, std::cmp::Reverse<Tgid>) {
    match way.via {
        Via::Device | Via::Direct => (way.shortcut, u32::MAX, std::cmp::Reverse(Tgid(0))),
        Via::Process(tgid, weight) => (way.shortcut, weight, std::cmp::Reverse(tgid)),
    }
}
