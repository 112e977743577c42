//! Tests of the fall-back actuator and of timer slack by class on real processes, and of their guardians
//! after real kills. They need root.

mod groups;
mod parts;
mod slack;

use std::thread::sleep;
use std::time::Duration;

use parts::{ForkedProcess, Place, Victim, rest, until, verdict};
use spry_policy::Tgid;
use spry_scheduler::actuator::{Actuator, Class, Health};
use spry_scheduler::fair::Fair;
use spry_scheduler::guardian::journal::Journal;
use spry_scheduler::guardian::restore_left;
use spry_scheduler::guardian::settings::{
    IDLE, OTHER, ROUND_ROBIN, Settings, TaskId, base_slice_ns, set_slack_ns, stat_of,
};

const SECOND: Duration = Duration::from_secs(1);

/// Gives a victim settings that no thread has by default, and returns them.
fn peculiar(victim: &Victim) -> Settings {
    set_slack_ns(victim.id(), 70_000).unwrap();
    let slice_ns = if base_slice_ns() != 0 { 3_300_000 } else { 0 };
    let settings = Settings { policy: OTHER, nice: -3, slice_ns, ..Settings::default() };
    settings.schedule(victim.tgid()).unwrap();
    let settings = victim.settings();
    assert_eq!((settings.nice, settings.slack_ns, settings.slice_ns), (-3, 70_000, slice_ns));
    settings
}

#[test]
fn processes_in_use_are_raised_and_restored_exactly() {
    let place = Place::new();
    let (plain, odd, server) = (Victim::sleeper(), Victim::sleeper(), Victim::sleeper());
    let before = [plain.settings(), peculiar(&odd), peculiar(&server)];
    let mut fair = place.start();
    let now = || [plain.settings(), odd.settings(), server.settings()];
    let verdicts = [verdict(plain.tgid(), 1), verdict(odd.tgid(), 3), verdict(server.tgid(), 0)];
    for _ in 0..2 {
        fair.apply(&verdicts).unwrap();
        let [plain, odd, server] = now();
        assert!(plain.nice <= -13 && plain.policy == OTHER && plain.reset_on_fork == 1, "{plain:?}");
        assert!(plain.slack_ns < 2_000, "{plain:?}");
        assert!(odd.nice < -3 && odd.nice > plain.nice, "{odd:?}");
        assert_eq!(odd.slice_ns, before[1].slice_ns, "a slice that the program chose itself stays");
        if base_slice_ns() != 0 {
            assert_eq!(plain.slice_ns, 100_000);
        }
        assert_eq!((server.policy, server.priority, server.reset_on_fork), (ROUND_ROBIN, 1, 1));
    }
    assert!(fair.tally().held >= 3, "{:?}", fair.tally());
    fair.apply(&[]).unwrap();
    assert_eq!(now(), before, "taken back by a round");
    fair.apply(&verdicts).unwrap();
    assert_ne!(now(), before);
    drop(fair);
    assert_eq!(now(), before, "taken back at the end");
}

#[test]
fn after_a_kill_everything_is_back_within_a_second() {
    let place = Place::new();
    let (client, server) = (Victim::sleeper(), Victim::sleeper());
    let before = [peculiar(&client), server.settings()];
    let now = || [client.settings(), server.settings()];
    let mut daemon = place.daemon(&[verdict(client.tgid(), 2), verdict(server.tgid(), 0)]);
    assert!(now()[0].nice < -3 && now()[1].policy == ROUND_ROBIN);
    daemon.kill();
    let took = until(SECOND, "everything is back", || now() == before);
    println!("restored {took:?} after the kill");
}

#[test]
fn settings_that_the_user_changed_meanwhile_stay() {
    let place = Place::new();
    let (reniced, real_time, twice) = (Victim::sleeper(), Victim::sleeper(), Victim::sleeper());
    let verdicts = [&reniced, &real_time, &twice].map(|victim| verdict(victim.tgid(), 1));
    let usual = reniced.settings();
    let renice = |victim: &Victim, nice| {
        // SAFETY: the call takes only numbers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, victim.tgid(), nice) }
    };

    let mut fair = place.start();
    fair.apply(&verdicts).unwrap();
    renice(&twice, 4);
    fair.apply(&verdicts).unwrap();
    fair.apply(&verdicts).unwrap();
    assert_eq!(twice.settings(), Settings { nice: 4, ..usual }, "no round sets it again");
    drop(fair);
    assert_eq!(twice.settings(), Settings { nice: 4, ..usual });

    let mut daemon = place.daemon(&verdicts);
    renice(&reniced, 7);
    Settings { policy: ROUND_ROBIN, priority: 3, ..usual }.schedule(real_time.tgid()).unwrap();
    daemon.kill();
    until(SECOND, "all but the nice value is back", || reniced.settings() == Settings { nice: 7, ..usual });
    sleep(SECOND / 10);
    assert_eq!((real_time.settings().policy, real_time.settings().priority), (ROUND_ROBIN, 3));
}

#[test]
fn a_number_that_is_another_thread_by_now_is_left_alone() {
    let place = Place::new();
    let victim = Victim::sleeper();
    let ours = Settings { nice: -17, reset_on_fork: 1, ..victim.settings() };
    let earlier = TaskId { start: victim.id().start - 1, ..victim.id() };
    let mut journal = Journal::open(place.journal()).unwrap();
    journal.task_begin(earlier, victim.settings(), ours).unwrap();
    drop(journal);
    ours.schedule(victim.tgid()).unwrap();
    let restored = restore_left(place.journal()).unwrap();
    assert_eq!((restored.gone, restored.restored), (1, 0));
    assert_eq!(victim.settings(), ours);
}

#[test]
fn children_of_what_is_in_use_are_not_raised() {
    let place = Place::new();
    let mut shell = Victim::run("sh", &["-c", "while read line; do sleep 600 & echo $!; done"]);
    let usual = shell.settings();
    let mut fair = place.start();
    for level in [1, 0] {
        fair.apply(&[verdict(shell.tgid(), level)]).unwrap();
        assert_ne!(shell.settings(), usual);
        shell.say("fork");
        let child: u32 = shell.hear().parse().unwrap();
        let now = Settings::of(TaskId::now(child, child).unwrap(), base_slice_ns()).unwrap();
        assert_eq!(now.without_slack(), usual.without_slack(), "level {level}");
        drop(fair);
        // The kernel has no flag for slack: slack is always inherited, and is recognized at the end by its
        // value.
        let now = Settings::of(TaskId::now(child, child).unwrap(), base_slice_ns()).unwrap();
        assert_eq!(now, usual);
        // SAFETY: the call takes only numbers; the child is the shell's, which has not waited for it.
        unsafe { libc::kill(child as libc::pid_t, libc::SIGKILL) };
        fair = place.start();
    }
    drop(fair);
}

#[test]
fn threads_of_later_are_raised_by_the_next_round() {
    let place = Place::new();
    let mut gate = std::os::unix::net::UnixStream::pair().unwrap();
    let forked = ForkedProcess::new(|ready| {
        ready();
        let mut byte = [0];
        _ = std::io::Read::read(&mut gate.1, &mut byte);
        std::thread::spawn(|| rest());
        rest();
    });
    let tgid = forked.0 as u32;
    let tids = || -> Vec<u32> {
        let entries = std::fs::read_dir(format!("/proc/{tgid}/task")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
    };
    let nices =
        || -> Vec<i32> { tids().iter().map(|&tid| Settings::scheduling_of(tid, 0).unwrap().nice).collect() };
    let mut fair = place.start();
    fair.apply(&[verdict(tgid, 1)]).unwrap();
    std::io::Write::write_all(&mut gate.0, &[1]).unwrap();
    until(SECOND, "there are two threads", || tids().len() == 2);
    assert!(nices().contains(&0), "a new thread inherits nothing");
    fair.apply(&[verdict(tgid, 1)]).unwrap();
    assert!(nices().iter().all(|&nice| nice <= -13), "{:?}", nices());
    drop(fair);
    assert_eq!(nices(), [0, 0]);
}

#[test]
fn a_guardian_that_is_killed_is_replaced_and_said() {
    let place = Place::new();
    let victim = Victim::sleeper();
    let usual = victim.settings();
    let tgid = victim.tgid();
    let mut daemon = ForkedProcess::new(|ready| {
        let mut fair = place.start();
        fair.apply(&[verdict(tgid, 1)]).unwrap();
        let first = fair.guardian_tgid().unwrap();
        // SAFETY: the guardian is our own child.
        unsafe { libc::kill(first.0 as libc::pid_t, libc::SIGKILL) };
        until(SECOND, "another guardian is there", || {
            fair.health() == Health::Acting && fair.guardian_tgid().unwrap() != first
        });
        assert!(fair.warnings().iter().any(|warning| warning.contains("guardian was killed")));
        ready();
        rest();
    });
    assert_ne!(victim.settings(), usual);
    daemon.kill();
    until(SECOND, "the second guardian restores", || victim.settings() == usual);
}

#[test]
fn if_both_are_killed_the_next_start_restores() {
    let place = Place::new();
    let victim = Victim::sleeper();
    let usual = victim.settings();
    let mut daemon = place.daemon(&[verdict(victim.tgid(), 1)]);
    let guardian = place.guardian();
    // SAFETY: the calls take only numbers; the guardian's number is from its daemon, which still runs.
    unsafe { libc::kill(guardian as libc::pid_t, libc::SIGKILL) };
    daemon.kill();
    sleep(SECOND / 5);
    assert_ne!(victim.settings(), usual, "nobody is there to restore");
    let fair = place.start();
    assert_eq!(victim.settings(), usual);
    assert!(fair.warnings().iter().any(|warning| warning.contains("1 threads")), "{:?}", fair.warnings());
    drop(fair);
}

#[test]
fn the_guardian_survives_what_ends_the_daemons_group() {
    let place = Place::new();
    let victim = Victim::sleeper();
    let usual = victim.settings();
    let tgid = victim.tgid();
    let mut daemon = ForkedProcess::new(|ready| {
        // SAFETY: the call takes only numbers.
        unsafe { libc::setpgid(0, 0) };
        let mut fair = place.start();
        fair.apply(&[verdict(tgid, 1)]).unwrap();
        ready();
        rest();
    });
    assert_ne!(victim.settings(), usual);
    // SAFETY: the group is our child's own.
    unsafe { libc::kill(-daemon.0, libc::SIGKILL) };
    daemon.kill();
    until(SECOND, "the guardian restores", || victim.settings() == usual);
}

#[test]
fn a_second_daemon_is_refused_while_one_acts() {
    let place = Place::new();
    let mut daemon = place.daemon(&[]);
    let error = Fair::start(place.options()).unwrap_err().to_string();
    assert!(error.contains("another daemon"), "{error}");
    daemon.kill();
    drop(place.start());
}

#[test]
fn a_server_that_takes_too_much_is_demoted_in_two_seconds() {
    let place = Place::new();
    let server = Victim::run("sh", &["-c", "while :; do :; done"]);
    let usual = server.settings();
    let mut fair = place.start();
    fair.apply(&[verdict(server.tgid(), 0)]).unwrap();
    let is_demoted = || server.settings().policy == OTHER && server.settings().nice == -20;
    until(2 * SECOND, "the guardian has demoted it", is_demoted);
    fair.apply(&[verdict(server.tgid(), 0)]).unwrap();
    assert_eq!(server.settings().policy, OTHER, "the next round does not raise it again");
    assert!(fair.warnings().iter().any(|warning| warning.contains("took too much")), "{:?}", fair.warnings());
    drop(fair);
    assert_eq!(server.settings(), usual);
}

#[test]
fn a_class_by_hand_goes_before_the_policys_and_is_taken_back() {
    let place = Place::new();
    let victim = Victim::sleeper();
    let usual = victim.settings();
    let tgid = Tgid(victim.tgid());
    let verdicts = [verdict(tgid.0, 1)];
    let mut fair = place.start();
    fair.set_by_hand(tgid, Some(Class::Idle)).unwrap();
    assert_eq!(victim.settings().policy, IDLE);
    fair.apply(&verdicts).unwrap();
    assert_eq!(victim.settings().policy, IDLE);
    fair.set_by_hand(tgid, Some(Class::Other)).unwrap();
    fair.apply(&verdicts).unwrap();
    assert_eq!(victim.settings(), usual);
    fair.set_by_hand(tgid, Some(Class::Interactive)).unwrap();
    fair.apply(&[]).unwrap();
    assert!(victim.settings().nice <= -13);
    fair.set_by_hand(tgid, None).unwrap();
    fair.apply(&[]).unwrap();
    assert_eq!(victim.settings(), usual);
    assert!(fair.set_by_hand(Tgid(u32::MAX >> 1), Some(Class::Idle)).is_err());
    drop(fair);
}

#[test]
fn a_process_that_is_nice_by_itself_is_not_raised() {
    let place = Place::new();
    let victim = Victim::run("nice", &["-n", "10", "sleep", "600"]);
    until(SECOND, "it is nice", || victim.settings().nice == 10);
    let before = victim.settings();
    let mut fair = place.start();
    fair.apply(&[verdict(victim.tgid(), 1), verdict(2, 1)]).unwrap();
    assert_eq!(victim.settings(), before);
    assert!(stat_of(2, 2).unwrap().is_kernel);
    assert_eq!(Settings::scheduling_of(2, 0).unwrap().nice, 0, "a thread of the kernel");
    drop(fair);
}

#[test]
fn a_round_of_1000_processes_costs_at_most_half_a_second_of_cpu() {
    let place = Place::new();
    let crowd: Vec<ForkedProcess> = (0..1000)
        .map(|_| {
            ForkedProcess::new(|ready| {
                for _ in 0..3 {
                    std::thread::Builder::new().stack_size(65_536).spawn(|| rest()).unwrap();
                }
                ready();
                rest();
            })
        })
        .collect();
    let verdicts: Vec<_> = crowd.iter().map(|forked| verdict(forked.0 as u32, 3)).collect();
    let mut fair = place.start();
    // CPU time is measured, since other programs that run on this machine must not count.
    let mut timed = |verdicts: &[_]| {
        let began = cpu_time();
        fair.apply(verdicts).unwrap();
        (cpu_time() - began, fair.tally().held)
    };
    let first = timed(&verdicts);
    let again = timed(&verdicts);
    let back = timed(&[]);
    println!("first {first:?}, again {again:?}, back {back:?}");
    assert!(first.1 >= 4000 && again.1 >= 4000, "first {first:?}, again {again:?}");
    assert!(first.0 <= SECOND / 2 && again.0 <= SECOND / 10, "first {first:?}, again {again:?}");
    drop(fair);
}

/// The CPU time that the calling thread has used.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
