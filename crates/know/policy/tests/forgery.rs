//! The defences of the policy: a process cannot improve its own standing. Each test fails if the defence that
//! it tests is left out.

use spry_policy::{
    Changes, Constants, Device, DeviceOwner, Due, Graph, Place, Policy, Sample, Server, Standing, Tgid,
};

const SERVER: Tgid = Tgid(1);
const DISPLAY: Device = Device { place: Place::Display(0), whose: DeviceOwner::User(1000) };
const SERVERS: [Server; 1] = [Server { tgid: SERVER, device: Some(DISPLAY) }];
const EDITOR: Tgid = Tgid(10);
const HOG: Tgid = Tgid(50);
const CHILD: Tgid = Tgid(51);
const TYPED: Changes = Changes { input: 8, output_ppm: 10_000 };

/// The standings of the third second of a world in which the user types into the editor, and `others` adds
/// the actions of other processes.
fn third_second(constants: &Constants, others: impl Fn(&mut Graph)) -> Vec<Standing> {
    let (mut graph, mut policy) = (Graph::new(), Policy::new(constants.clone()));
    let mut standings = Vec::new();
    for _ in 0..3 {
        graph.depend(SERVER, EDITOR, 8);
        graph.depend(EDITOR, SERVER, 8);
        others(&mut graph);
        let samples = [Sample { tgid: EDITOR, device: DISPLAY, changes: TYPED }];
        standings = policy.round(&mut graph, &SERVERS, &samples, Due::Regular);
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
fn waiting_for_a_process_in_use_gains_nothing() {
    assert!(!gains(&Constants::default(), |graph| {
        graph.depend(HOG, EDITOR, 10_000);
        graph.depend(HOG, SERVER, 10_000);
    }));
}

#[test]
fn requests_that_draw_nothing_gain_nothing_from_a_server() {
    // The hog only sends requests to the server, and waits for the answers.
    let asks = |graph: &mut Graph| {
        graph.depend(SERVER, HOG, 10_000);
        graph.depend(HOG, SERVER, 10_000);
    };
    assert!(!gains(&Constants::default(), asks));
    assert!(gains(&Constants::thesis(), asks), "the literal rule has no such defence");
}

#[test]
fn a_helper_of_a_client_that_shows_nothing_gains_nothing() {
    assert!(!gains(&Constants::default(), |graph| {
        graph.depend(SERVER, CHILD, 10_000);
        graph.depend(CHILD, HOG, 10_000);
    }));
}

#[test]
fn a_flood_of_processes_does_not_cost_a_helper_its_place() {
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
fn a_process_that_draws_does_not_pass_the_one_typed_at() {
    let constants = Constants::default();
    let (mut graph, mut policy) = (Graph::new(), Policy::new(constants));
    let drawn = Changes { input: 0, output_ppm: 1_000_000 };
    let samples = [
        Sample { tgid: EDITOR, device: DISPLAY, changes: TYPED },
        Sample { tgid: HOG, device: DISPLAY, changes: drawn },
    ];
    let standings = policy.round(&mut graph, &SERVERS, &samples, Due::Regular);
    let of = |tgid| standings.iter().find(|standing| standing.tgid == tgid).expect("it was seen");
    let level = |tgid| of(tgid).level;
    assert!(level(EDITOR) < level(HOG));
}

/// Per second: whether the hog is in use, if it draws the given part of the screen in each second, ppm.
fn used(constants: &Constants, drawn_ppm: &[u64]) -> Vec<bool> {
    let (mut graph, mut policy) = (Graph::new(), Policy::new(constants.clone()));
    let mut second = |&output_ppm: &u64| {
        let film = Changes { input: 0, output_ppm: 5_000_000 };
        let samples = [
            Sample { tgid: EDITOR, device: DISPLAY, changes: film },
            Sample { tgid: HOG, device: DISPLAY, changes: Changes { input: 0, output_ppm } },
        ];
        let standings = policy.round(&mut graph, &SERVERS, &samples, Due::Regular);
        is_found(&standings, HOG)
    };
    drawn_ppm.iter().map(&mut second).collect()
}

#[test]
fn blinking_in_a_few_pixels_gains_nothing() {
    // The hog draws 6x6 pixels of 800x600, 100 times a second.
    let drawn = [7_500; 10];
    assert_eq!(used(&Constants::default(), &drawn), [false; 10]);
    assert_eq!(used(&Constants::thesis(), &drawn), [true; 10], "the literal rule has no such defence");
}

#[test]
fn a_process_that_stops_drawing_is_forgotten_in_two_seconds() {
    let drawn = [8_000_000, 8_000_000, 0, 0, 0, 0];
    assert_eq!(used(&Constants::default(), &drawn), [true, true, true, false, false, false]);
    assert_eq!(used(&Constants::default(), &[8_000_000, 0, 8_000_000, 0, 8_000_000]), [true; 5]);
    assert_eq!(used(&Constants::thesis(), &drawn), [true; 6], "the literal rule lets it halve");
}

#[test]
fn a_small_echo_counts_beside_what_is_typed() {
    let (mut graph, mut policy) = (Graph::new(), Policy::new(Constants::default()));
    let samples = [Sample { tgid: EDITOR, device: DISPLAY, changes: Changes { input: 8, output_ppm: 500 } }];
    let standings = policy.round(&mut graph, &SERVERS, &samples, Due::Regular);
    let editor = standings.iter().find(|standing| standing.tgid == EDITOR).expect("in use");
    assert_eq!((editor.shortcut, editor.level), (8, 1));
}
