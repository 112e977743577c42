//! The interprocess graph under pressure.

use spry_policy::{EDGES_MAX, Graph, Tgid};

fn on(graph: &Graph, tgid: u32) -> Vec<(u32, u32)> {
    graph.outgoing(Tgid(tgid)).iter().map(|edge| (edge.on.0, edge.weight)).collect()
}

#[test]
fn threads_of_one_process_do_not_depend_on_each_other() {
    let mut graph = Graph::new();
    graph.depend(Tgid(1), Tgid(1), 100);
    assert!(graph.is_empty());
}

#[test]
fn a_full_process_gives_up_its_lightest_edge_at_both_ends() {
    let mut graph = Graph::new();
    for other in 0..EDGES_MAX as u32 {
        graph.depend(Tgid(100), Tgid(other), 2 + other);
    }
    graph.depend(Tgid(100), Tgid(50), 1);
    assert_eq!(on(&graph, 100).len(), EDGES_MAX);
    assert_eq!(*on(&graph, 100).last().unwrap(), (50, 1));
    assert_eq!(graph.recycled(), 1);
    // 13 processes depend on one process: the lightest edge is also removed where it starts.
    let mut graph = Graph::new();
    for other in 0..=EDGES_MAX as u32 {
        graph.depend(Tgid(other), Tgid(100), 20 - other);
    }
    assert_eq!(on(&graph, 11), [], "it was the lightest when the thirteenth came");
    assert_eq!(on(&graph, 12), [(100, 8)]);
}

#[test]
fn weights_halve_and_what_becomes_nothing_is_freed() {
    let mut graph = Graph::new();
    graph.depend(Tgid(1), Tgid(2), 5);
    graph.depend(Tgid(1), Tgid(3), 1);
    graph.halve();
    assert_eq!(on(&graph, 1), [(2, 2)]);
    assert_eq!(graph.len(), 2);
    graph.halve();
    graph.halve();
    assert!(graph.is_empty());
}

#[test]
fn a_flood_of_processes_costs_a_bounded_number_of_edges_each() {
    let mut graph = Graph::new();
    for tgid in 2..20_000 {
        graph.depend(Tgid(1), Tgid(tgid), 1);
        graph.depend(Tgid(tgid), Tgid(1), 1);
    }
    assert_eq!(on(&graph, 1).len(), EDGES_MAX);
    (2..20_000).for_each(|tgid| graph.remove(Tgid(tgid)));
    assert_eq!(on(&graph, 1), []);
    graph.halve();
    assert!(graph.is_empty());
}

#[test]
fn a_part_of_the_graph_leads_over_admitted_processes_only() {
    let mut graph = Graph::new();
    for (waiter, on, times) in [(1, 2, 5), (2, 3, 4), (3, 1, 3), (2, 9, 8), (9, 4, 8), (5, 6, 1)] {
        graph.depend(Tgid(waiter), Tgid(on), times);
    }
    let part = graph.among([Tgid(1), Tgid(77)], |tgid| tgid.0 < 9);
    assert_eq!((on(&part, 1), on(&part, 2), on(&part, 3)), (vec![(2, 5)], vec![(3, 4)], vec![(1, 3)]));
    assert_eq!((on(&part, 9), on(&part, 5)), (vec![], vec![]), "over 9, and where no way leads");
    assert_eq!(on(&graph.among([Tgid(9)], |_| false), 9), []);
}
