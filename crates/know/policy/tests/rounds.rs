//! The policy's rules, each as a claim about a small world.

use spry_policy::{
    Changes, Constants, Device, DeviceOwner, Due, Graph, Place, Policy, Sample, Server, Standing, Tgid,
    Trigger, Via,
};

const SERVER: Tgid = Tgid(1);
const DISPLAY: Device = Device { place: Place::Display(0), whose: DeviceOwner::User(1000) };
const SERVERS: [Server; 1] = [Server { tgid: SERVER, device: Some(DISPLAY) }];
const SCREEN: u64 = 1_000_000;

struct World {
    policy: Policy,
    graph: Graph,
}

impl World {
    fn new(constants: Constants) -> World {
        World { policy: Policy::new(constants), graph: Graph::new() }
    }

    /// The processes `one` and `other` wait for each other.
    fn talk(&mut self, one: u32, other: u32, times: u32) {
        self.graph.depend(Tgid(one), Tgid(other), times);
        self.graph.depend(Tgid(other), Tgid(one), times);
    }

    fn second(&mut self, seen: &[(u32, u32, u64)]) -> Vec<Standing> {
        self.round(seen, Due::Regular)
    }

    fn round(&mut self, seen: &[(u32, u32, u64)], due: Due) -> Vec<Standing> {
        let samples: Vec<Sample> = seen
            .iter()
            .map(|&(tgid, input, output_ppm)| Sample {
                tgid: Tgid(tgid),
                device: DISPLAY,
                changes: Changes { input, output_ppm },
            })
            .collect();
        self.policy.round(&mut self.graph, &SERVERS, &samples, due)
    }
}

fn of(standings: &[Standing], tgid: u32) -> Option<Standing> {
    standings.iter().find(|standing| standing.tgid == Tgid(tgid)).copied()
}

fn shortcut(standings: &[Standing], tgid: u32) -> u16 {
    of(standings, tgid).expect("in reach of the user").shortcut
}

#[test]
fn in_the_thesis_example_a_shell_inherits_its_terminal_s_six() {
    let mut world = World::new(Constants::thesis());
    world.talk(1, 10, 5);
    world.talk(10, 11, 5);
    let standings = world.second(&[(10, 8, 0)]);
    let (terminal, shell) = (of(&standings, 10).unwrap(), of(&standings, 11).unwrap());
    assert_eq!((terminal.distance, terminal.shortcut), (2, 6));
    assert_eq!((shell.distance, shell.shortcut, shell.via), (4, 6, Via::Process(Tgid(10), 5)));
    assert_eq!(of(&standings, 1).unwrap().level, 0);
    assert!(terminal.level < shell.level);
}

#[test]
fn shortcuts_add_up_and_the_best_possible_client_is_on_level_1() {
    let mut world = World::new(Constants::thesis());
    world.talk(1, 10, 5);
    let standings = world.second(&[(10, 8, SCREEN)]);
    assert_eq!((shortcut(&standings, 10), of(&standings, 10).unwrap().level), (8, 1));
}

#[test]
fn the_top_three_in_drawing_and_two_in_input_are_set_apart() {
    let mut world = World::new(Constants::thesis());
    let drawing: Vec<(u32, u32, u64)> =
        (10..15).map(|tgid| (tgid, 0, u64::from(tgid) * SCREEN / 10)).collect();
    let standings = world.second(&drawing);
    assert_eq!((10..15).map(|tgid| shortcut(&standings, tgid)).collect::<Vec<_>>(), [1, 1, 2, 2, 2]);
    let mut world = World::new(Constants::thesis());
    let typing: Vec<(u32, u32, u64)> = (10..14).map(|tgid| (tgid, 2 * tgid, 0)).collect();
    let standings = world.second(&typing);
    assert_eq!((10..14).map(|tgid| shortcut(&standings, tgid)).collect::<Vec<_>>(), [2, 2, 6, 6]);
}

#[test]
fn ties_go_by_this_second_s_changes_and_then_the_lower_number() {
    let mut world = World::new(Constants::thesis());
    // Process 12 had an average of 8 a second ago, of which 4 is left; 10 and 11 now have 4, of 8 events in
    // this second.
    world.second(&[(12, 16, 0)]);
    let standings = world.second(&[(10, 8, 0), (11, 8, 0)]);
    assert_eq!((10..13).map(|tgid| shortcut(&standings, tgid)).collect::<Vec<_>>(), [6, 6, 2]);
    let mut world = World::new(Constants::thesis());
    let standings = world.second(&[(10, 8, 0), (11, 8, 0), (12, 8, 0)]);
    assert_eq!((10..13).map(|tgid| shortcut(&standings, tgid)).collect::<Vec<_>>(), [6, 6, 2]);
}

#[test]
fn a_client_drawing_past_the_server_is_known_by_its_input() {
    let mut world = World::new(Constants::default());
    let standings = world.second(&[(10, 30, 0)]);
    let game = of(&standings, 10).unwrap();
    assert_eq!((game.distance, game.shortcut, game.via), (2, 6, Via::Direct));
}

#[test]
fn of_equally_short_ways_only_the_largest_shortcut_counts() {
    let mut world = World::new(Constants::thesis());
    for client in [10, 11] {
        world.talk(1, client, 5);
        world.talk(client, 20, 5);
    }
    // Process 11 receives the most input, and 10 only draws. Both have an edge to 20, and 10 also has an edge
    // to 11.
    world.talk(10, 11, 5);
    let standings = world.second(&[(10, 0, SCREEN), (11, 8, 0)]);
    assert_eq!((shortcut(&standings, 10), shortcut(&standings, 11)), (2, 6));
    let shared = of(&standings, 20).unwrap();
    assert_eq!((shared.distance, shared.shortcut, shared.via), (4, 6, Via::Process(Tgid(11), 5)));
}

#[test]
fn cycles_end_and_what_is_too_far_is_not_reached() {
    let mut world = World::new(Constants { distance_max: 6, ..Constants::thesis() });
    world.talk(1, 10, 9);
    for tgid in 10..15 {
        world.talk(tgid, tgid + 1, 9);
    }
    world.talk(15, 10, 9);
    let standings = world.second(&[(10, 8, 0)]);
    let reached: Vec<(u32, u16)> = standings.iter().map(|found| (found.tgid.0, found.distance)).collect();
    assert_eq!(reached, [(1, 0), (10, 2), (11, 4), (15, 4), (12, 6), (14, 6)]);
}

#[test]
fn a_server_does_not_depend_on_a_process_that_only_wakes_it() {
    let mut world = World::new(Constants::thesis());
    world.graph.depend(Tgid(30), SERVER, 50);
    assert_eq!(of(&world.second(&[]), 30), None);
    world.graph.depend(SERVER, Tgid(30), 1);
    assert!(of(&world.second(&[]), 30).is_some());
}

#[test]
fn a_dependency_seen_once_counts_for_one_second() {
    let mut world = World::new(Constants::thesis());
    world.graph.depend(SERVER, Tgid(10), 1);
    assert!(of(&world.second(&[]), 10).is_some());
    assert_eq!(of(&world.second(&[]), 10), None);
    assert!(world.graph.is_empty());
}

#[test]
fn the_thesis_average_keeps_a_peak_for_its_logarithm_in_seconds() {
    let mut world = World::new(Constants::thesis());
    world.second(&[(10, 64, 0)]);
    let seconds = (0..).take_while(|_| of(&world.second(&[]), 10).is_some()).count();
    assert_eq!(seconds, 5);
}

#[test]
fn a_process_the_user_leaves_loses_its_rank_in_five_seconds() {
    let mut world = World::new(Constants::default());
    (0..10).for_each(|_| drop(world.second(&[(10, 30, 0)])));
    let mut seconds = 0;
    loop {
        let standings = world.second(&[(11, 30, 0)]);
        assert_eq!(shortcut(&standings, 11), 6, "the second is seen at once");
        if of(&standings, 10).is_none_or(|first| first.shortcut == 0) {
            break;
        }
        seconds += 1;
    }
    assert!(seconds < 5, "{seconds}");
}

/// The number of rounds from the user's turn from process 10 to 11 until process 11 has the top rank alone.
/// `keys_before` sets the moment of the turn in the second: so many of its 8 keys go to 10.
fn seconds_to_turn(constants: Constants, keys_before: u32) -> usize {
    let mut world = World::new(constants);
    (0..10).for_each(|_| drop(world.second(&[(10, 8, SCREEN), (11, 0, SCREEN)])));
    let turning = world.second(&[(10, keys_before, SCREEN), (11, 8 - keys_before, SCREEN)]);
    let has_turned = |standings: &[Standing]| {
        shortcut(standings, 11) == 8 && of(standings, 10).is_some_and(|first| first.shortcut < 4)
    };
    if has_turned(&turning) {
        return 1;
    }
    let typed = |world: &mut World| world.second(&[(10, 0, SCREEN), (11, 8, SCREEN)]);
    2 + (0..).take_while(|_| !has_turned(&typed(&mut world))).count()
}

#[test]
fn a_process_the_user_turns_to_has_the_rank_in_two_seconds() {
    for keys_before in 0..8 {
        assert!(seconds_to_turn(Constants::default(), keys_before) <= 2, "{keys_before}");
    }
    // With the averages of the thesis both processes stay equal for longer.
    assert!(seconds_to_turn(Constants::thesis(), 0) > 2);
}

#[test]
fn the_first_key_makes_a_process_equal_to_the_one_before_it() {
    let mut world = World::new(Constants::default());
    (0..3).for_each(|_| drop(world.second(&[(10, 30, SCREEN), (11, 0, SCREEN / 16)])));
    let shortcuts = |standings: &[Standing]| [10, 11].map(|tgid| shortcut(standings, tgid));
    assert_eq!(shortcuts(&world.round(&[(10, 20, SCREEN), (11, 1, SCREEN / 16)], Due::Early)), [8, 8]);
    assert_eq!(shortcuts(&world.second(&[(10, 0, SCREEN), (11, 1, SCREEN / 16)])), [8, 8]);
    // A second later, the keys that process 11 itself received decide.
    assert_eq!(shortcuts(&world.second(&[(10, 0, SCREEN), (11, 3, SCREEN / 16)])), [2, 8]);
}

#[test]
fn a_pause_of_the_user_changes_no_rank() {
    let mut world = World::new(Constants::default());
    world.second(&[(10, 8, SCREEN)]);
    for _ in 0..3 {
        assert_eq!(shortcut(&world.second(&[(10, 0, SCREEN)]), 10), 8);
    }
}

#[test]
fn vanished_processes_and_replaced_programs_leave_nothing() {
    let mut world = World::new(Constants::thesis());
    world.talk(1, 10, 9);
    world.talk(10, 11, 9);
    assert!(of(&world.second(&[(10, 8, SCREEN)]), 11).is_some());
    world.graph.remove(Tgid(10));
    world.policy.forget(Tgid(10));
    let standings = world.second(&[]);
    assert_eq!(standings.iter().map(|found| found.tgid).collect::<Vec<_>>(), [SERVER]);
    // A new process has the number 10 again.
    world.talk(1, 10, 1);
    assert_eq!(shortcut(&world.second(&[]), 10), 0);
}

#[test]
fn an_early_round_sees_new_processes_and_halves_nothing() {
    let mut world = World::new(Constants::default());
    world.graph.depend(SERVER, Tgid(10), 1);
    let early = world.round(&[(10, 2, 1000)], Due::Early);
    assert_eq!(shortcut(&early, 10), 8);
    let again = world.round(&[], Due::Early);
    assert_eq!(early, again);
    assert_eq!(shortcut(&world.second(&[]), 10), 8);
}

#[test]
fn new_clients_are_seen_in_50_ms_without_a_flood_of_rounds() {
    let constants = Constants::default();
    const MS: u64 = 1_000_000;
    let mut trigger = Trigger::new(0, &constants);
    trigger.ask(300 * MS);
    assert!(trigger.due_ns(&constants) <= 350 * MS);
    let (mut now_ns, mut rounds) = (300 * MS, 0);
    while now_ns < 1_300 * MS {
        trigger.ask(now_ns);
        if trigger.due_ns(&constants) <= now_ns {
            rounds += 1;
            let _ = trigger.round(now_ns, &constants);
        }
        now_ns += MS;
    }
    assert!((1..=12).contains(&rounds), "{rounds}");
    assert_eq!(trigger.round(5_000 * MS, &constants), Due::Regular);
    assert!(trigger.due_ns(&constants) > 5_000 * MS, "what was slept through is not made up for");
}

#[test]
fn a_learnt_second_counts_like_a_decided_one() {
    let (mut decided, mut learnt) = (World::new(Constants::default()), World::new(Constants::default()));
    for world in [&mut decided, &mut learnt] {
        world.talk(10, 1, 4);
    }
    let changes = Changes { input: 8, output_ppm: SCREEN / 2 };
    decided.second(&[(10, 8, SCREEN / 2)]);
    learnt.policy.learn(&SERVERS, &[Sample { tgid: Tgid(10), device: DISPLAY, changes }]);
    learnt.graph.halve();
    assert_eq!(learnt.second(&[(10, 1, 0), (11, 0, 9)]), decided.second(&[(10, 1, 0), (11, 0, 9)]));
}

#[test]
fn among_some_the_ranks_are_theirs() {
    let mut world = World::new(Constants::default());
    world.second(&[(10, 2, 100), (20, 50, SCREEN)]);
    let alone = {
        let mut alone = World::new(Constants::default());
        alone.second(&[(10, 2, 100)]);
        alone.second(&[(10, 2, 100)])
    };
    let mut part = World { policy: world.policy.among(|tgid| tgid == Tgid(10)), graph: Graph::new() };
    assert_eq!(part.policy.known().collect::<Vec<_>>(), [Tgid(10)]);
    assert_eq!(part.second(&[(10, 2, 100)]), alone);
    assert!(shortcut(&world.second(&[(10, 2, 100), (20, 50, SCREEN)]), 10) < shortcut(&alone, 10));
}
