//! What a process cannot do for its own standing. Each of these fails where the defence is left out.

use spry_policy::{Changes, Constants, Due, Graph, Policy, Sample, Standing, Tgid};

const SERVER: Tgid = Tgid(1);
const EDITOR: Tgid = Tgid(10);
const HOG: Tgid = Tgid(50);
const CHILD: Tgid = Tgid(51);
const TYPED: Changes = Changes { input: 8, output_ppm: 10_000 };

/// The third second of a world in which the editor is typed at, and others do as told.
fn third_second(constants: &Constants, others: impl Fn(&mut Graph)) -> Vec<Standing> {
    let (mut graph, mut policy) = (Graph::new(), Policy::new(constants.clone()));
    let mut standings = Vec::new();
    for _ in 0..3 {
        graph.depend(SERVER, EDITOR, 8);
        graph.depend(EDITOR, SERVER, 8);
        others(&mut graph);
        let samples = [Sample { tgid: EDITOR, changes: TYPED }];
        standings = policy.round(&mut graph, &[SERVER], &samples, Due::Regular);
    }
    standings
}

fn is_found(standings: &[Standing], tgid: Tgid) -> bool {
    standings.iter().any(|standing| standing.tgid == tgid)
}

fn gains(constants: &Constants, others: impl Fn(&mut Graph)) -> bool {
    is_found(&third_second(constants, others), HOG)
}

#[test]
fn talking_to_itself_gains_nothing() {
    assert!(!gains(&Constants::default(), |graph| graph.depend(HOG, HOG, 10_000)));
}

#[test]
fn talking_to_its_own_child_gains_nothing_for_either() {
    let standings = third_second(&Constants::default(), |graph| {
        graph.depend(HOG, CHILD, 10_000);
        graph.depend(CHILD, HOG, 10_000);
    });
    assert!(!is_found(&standings, HOG) && !is_found(&standings, CHILD));
}

#[test]
fn waiting_for_one_who_is_in_use_gains_nothing() {
    assert!(!gains(&Constants::default(), |graph| {
        graph.depend(HOG, EDITOR, 10_000);
        graph.depend(HOG, SERVER, 10_000);
    }));
}

#[test]
fn requests_that_show_nothing_gain_nothing_from_a_display_server() {
    // A client that only asks the server, and waits for its answers.
    let asks = |graph: &mut Graph| {
        graph.depend(SERVER, HOG, 10_000);
        graph.depend(HOG, SERVER, 10_000);
    };
    assert!(!gains(&Constants::default(), asks));
    assert!(gains(&Constants::thesis(), asks), "the literal rule has no such defence");
}

#[test]
fn behind_a_client_that_shows_nothing_nobody_gains_either() {
    assert!(!gains(&Constants::default(), |graph| {
        graph.depend(SERVER, CHILD, 10_000);
        graph.depend(CHILD, HOG, 10_000);
    }));
}

#[test]
fn a_flood_of_processes_around_one_in_use_does_not_cost_its_helper_the_place() {
    const HELPER: Tgid = Tgid(20);
    let standings = third_second(&Constants::default(), |graph| {
        graph.depend(EDITOR, HELPER, 5);
        for tgid in 1_000..3_000 {
            graph.depend(EDITOR, Tgid(tgid), 1);
        }
    });
    assert!(is_found(&standings, HELPER));
}

#[test]
fn one_that_draws_a_little_does_not_pass_who_is_typed_at() {
    let constants = Constants::default();
    let (mut graph, mut policy) = (Graph::new(), Policy::new(constants));
    let drawn = Changes { input: 0, output_ppm: 1_000_000 };
    let samples = [Sample { tgid: EDITOR, changes: TYPED }, Sample { tgid: HOG, changes: drawn }];
    let standings = policy.round(&mut graph, &[SERVER], &samples, Due::Regular);
    let level = |tgid| standings.iter().find(|standing| standing.tgid == tgid).map(|found| found.level);
    assert!(level(EDITOR) < level(HOG));
}
