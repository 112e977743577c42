//! Tests of timer slack by class: each class has its slack, and each thread gets its own back however
//! the daemon ends.

use std::thread::sleep;
use std::time::Duration;

use crate::parts::{ForkedProcess, Place, Victim, rest, until};
use spry_policy::{Due, Tgid};
use spry_scheduler::guardian::settings::{
    BACKGROUND_SLACK_NS, IN_USE_SLACK_NS, OTHER, ROUND_ROBIN, Settings, TaskId, USUAL_SLACK_NS, set_slack_ns,
    slack_ns,
};
use spry_scheduler::slack::{Placement, SlackByClass, SlackOptions};
use spry_sys::{Signal, signal};

const SECOND: Duration = Duration::from_secs(1);
/// The longest time until a sweep has visited all processes of a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The only user of these tests, so that other users' programs are left alone.
const USER: u32 = 54_321;
/// A shell that starts a child for each line that it reads, and prints the child's number.
const FORKS: &str = "while read line; do sleep 600 & echo $!; done";

fn options(place: &Place) -> SlackOptions {
    SlackOptions { journal: place.journal().to_owned(), users: USER..=USER, sweep_ns: 10_000_000 }
}

fn sleeper_of_user() -> Victim {
    Victim::of_user(USER, "sleep", &["600"])
}

fn slack_of(victim: &Victim) -> u64 {
    slack_ns(victim.id()).unwrap()
}

fn tgids(victims: &[&Victim]) -> impl Iterator<Item = Tgid> {
    victims.iter().map(|victim| Tgid(victim.tgid()))
}

fn in_use(victims: &[&Victim]) -> Placement {
    Placement { in_use: tgids(victims).collect(), ..Placement::default() }
}

/// Plays rounds until the condition is true.
fn play(slack: &mut SlackByClass, placement: &Placement, what: &str, mut is_so: impl FnMut() -> bool) {
    until(PATIENCE, what, || {
        slack.round(placement, Due::Regular);
        is_so()
    });
}

/// Plays rounds until a sweep has visited a process that was started after the last one began.
fn play_a_sweep(slack: &mut SlackByClass, placement: &Placement) {
    let witness = sleeper_of_user();
    play(slack, placement, "a new process has been visited", || slack_of(&witness) == BACKGROUND_SLACK_NS);
    let witness = sleeper_of_user();
    play(slack, placement, "another one has been visited", || slack_of(&witness) == BACKGROUND_SLACK_NS);
}

fn child_of(shell: &mut Victim) -> TaskId {
    shell.say("fork");
    let child: u32 = shell.hear().parse().unwrap();
    TaskId::now(child, child).unwrap()
}

fn end(child: TaskId) {
    signal::send(child.tgid, Signal::KILL).unwrap();
}

#[test]
fn each_class_has_its_slack_and_gets_its_own_back() {
    let place = Place::new();
    let (used, users, roots) = (Victim::sleeper(), sleeper_of_user(), Victim::sleeper());
    let now = || [&used, &users, &roots].map(slack_of);
    let usual = [USUAL_SLACK_NS; 3];
    assert_eq!(now(), usual);
    let mut slack = SlackByClass::start(options(&place)).unwrap();
    let placement = in_use(&[&used]);
    let by_class = [IN_USE_SLACK_NS, BACKGROUND_SLACK_NS, USUAL_SLACK_NS];
    play(&mut slack, &placement, "each class has its slack", || now() == by_class);
    let told = slack.told();
    // Other programs of users may run on this machine.
    assert!(told.in_use_threads == 1 && told.background_threads >= 1, "{told:?}");
    assert_eq!(slack.warnings(), [""; 0]);
    // A change of use takes effect at once, also by an early round.
    slack.round(&in_use(&[&users]), Due::Early);
    assert_eq!(now(), [USUAL_SLACK_NS, IN_USE_SLACK_NS, USUAL_SLACK_NS]);
    slack.round(&placement, Due::Early);
    assert_eq!(now(), by_class);
    drop(slack);
    assert_eq!(now(), usual);
}

#[test]
fn a_slack_that_a_thread_chose_itself_stays() {
    let place = Place::new();
    let (used, users, later) = (Victim::sleeper(), sleeper_of_user(), sleeper_of_user());
    for victim in [&used, &users] {
        set_slack_ns(victim.id(), 70_000).unwrap();
    }
    let now = || [&used, &users, &later].map(slack_of);
    let mut slack = SlackByClass::start(options(&place)).unwrap();
    let placement = in_use(&[&used]);
    play(&mut slack, &placement, "the other one is changed", || slack_of(&later) == BACKGROUND_SLACK_NS);
    set_slack_ns(later.id(), 123_000).unwrap();
    play_a_sweep(&mut slack, &placement);
    assert_eq!(now(), [70_000, 70_000, 123_000]);
    slack.round(&in_use(&[&later]), Due::Regular);
    assert_eq!(now(), [70_000, 70_000, 123_000]);
    drop(slack);
    assert_eq!(now(), [70_000, 70_000, 123_000]);
}

#[test]
fn real_time_threads_and_reserved_processes_are_left_alone() {
    let place = Place::new();
    let (used, users, reserved) = (Victim::sleeper(), sleeper_of_user(), sleeper_of_user());
    let real_time = Settings { policy: ROUND_ROBIN, priority: 1, ..Settings::default() };
    for victim in [&used, &users] {
        real_time.schedule(victim.tgid()).unwrap();
    }
    let before = [&used, &users].map(slack_of);
    let placement = Placement { kept: tgids(&[&reserved]).collect(), ..in_use(&[&used]) };
    let mut slack = SlackByClass::start(options(&place)).unwrap();
    play_a_sweep(&mut slack, &placement);
    assert_eq!([&used, &users].map(slack_of), before);
    assert_eq!(slack_of(&reserved), USUAL_SLACK_NS);
    // After its reservation has ended, a process gets the slack of its class, until it has another one.
    let unreserved = in_use(&[&used]);
    play(&mut slack, &unreserved, "the slack of its class", || slack_of(&reserved) == BACKGROUND_SLACK_NS);
    play(&mut slack, &placement, "its own slack", || slack_of(&reserved) == USUAL_SLACK_NS);
    // An ordinary thread again has its class, and what it had before after that.
    for victim in [&used, &users] {
        Settings { policy: OTHER, ..Settings::default() }.schedule(victim.tgid()).unwrap();
    }
    let by_class = [IN_USE_SLACK_NS, BACKGROUND_SLACK_NS];
    play(&mut slack, &placement, "the slack of their classes", || [&used, &users].map(slack_of) == by_class);
    drop(slack);
    assert_eq!([&used, &users].map(slack_of), [USUAL_SLACK_NS; 2]);
}

#[test]
fn slack_that_children_inherit_is_set_and_taken_back() {
    let place = Place::new();
    let mut used = Victim::run("sh", &["-c", FORKS]);
    let mut users = Victim::of_user(USER, "sh", &["-c", FORKS]);
    let mut slack = SlackByClass::start(options(&place)).unwrap();
    let placement = in_use(&[&used]);
    play(&mut slack, &placement, "both have their slack", || {
        (slack_of(&used), slack_of(&users)) == (IN_USE_SLACK_NS, BACKGROUND_SLACK_NS)
    });
    // A child of root's is not in use, and no user's.
    let (roots, early) = (child_of(&mut used), child_of(&mut users));
    play(&mut slack, &placement, "root's child has the usual slack", || {
        slack_ns(roots).unwrap() == USUAL_SLACK_NS
    });
    assert_eq!(slack_ns(early).unwrap(), BACKGROUND_SLACK_NS);
    let late = [child_of(&mut used), child_of(&mut users)];
    drop(slack);
    for child in [roots, early].into_iter().chain(late) {
        assert_eq!(slack_ns(child).unwrap(), USUAL_SLACK_NS);
        end(child);
    }
    assert_eq!([&used, &users].map(slack_of), [USUAL_SLACK_NS; 2]);
}

/// A daemon that has given each class its slack, and the number of its guardian.
fn daemon(place: &Place, used: &Victim, users: &Victim) -> (ForkedProcess, u32) {
    let file = place.journal().with_extension("guardian");
    let daemon = ForkedProcess::new(|ready| {
        let mut slack = SlackByClass::start(options(place)).unwrap();
        play(&mut slack, &in_use(&[used]), "each class has its slack", || {
            (slack_of(used), slack_of(users)) == (IN_USE_SLACK_NS, BACKGROUND_SLACK_NS)
        });
        std::fs::write(&file, slack.guardian_tgid().0.to_string()).unwrap();
        ready();
        rest();
    });
    (daemon, std::fs::read_to_string(&file).unwrap().parse().unwrap())
}

#[test]
fn after_a_kill_each_thread_has_its_slack_within_a_second() {
    let place = Place::new();
    let (used, mut users) = (Victim::sleeper(), Victim::of_user(USER, "sh", &["-c", FORKS]));
    let (mut daemon, _) = daemon(&place, &used, &users);
    let child = child_of(&mut users);
    assert_eq!(slack_ns(child).unwrap(), BACKGROUND_SLACK_NS);
    daemon.kill();
    let now = || [slack_of(&used), slack_of(&users), slack_ns(child).unwrap()];
    until(SECOND, "all is back", || now() == [USUAL_SLACK_NS; 3]);
    end(child);
}

#[test]
fn if_both_are_killed_the_next_start_gives_slack_back() {
    let place = Place::new();
    let (used, users) = (Victim::sleeper(), sleeper_of_user());
    let (mut daemon, guardian) = daemon(&place, &used, &users);
    signal::send(guardian, Signal::KILL).unwrap();
    daemon.kill();
    sleep(SECOND / 5);
    let now = || [&used, &users].map(slack_of);
    assert_eq!(now(), [IN_USE_SLACK_NS, BACKGROUND_SLACK_NS], "no process is left to restore");
    drop(SlackByClass::start(options(&place)).unwrap());
    assert_eq!(now(), [USUAL_SLACK_NS; 2]);
}
