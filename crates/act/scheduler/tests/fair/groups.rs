//! Tests of groups of tasks: a process in use has its weight also beside other sessions, and the other tasks
//! keep their share. These tests run only on a machine where sessions are groups and no program manages
//! control groups.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use crate::parts::{Place, Victim, until, verdict};
use spry_scheduler::actuator::Actuator;
use spry_sys::clock::process_cpu_ns;

const SECOND: Duration = Duration::from_secs(1);
const LOOP: &str = "while :; do :; done";

fn group(tgid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{tgid}/cgroup")).unwrap();
    let line = text.lines().find(|line| line.split(':').nth(1).unwrap().split(',').any(|c| c == "cpu"));
    let line = line.or(text.lines().find(|line| line.starts_with("0::"))).unwrap();
    line.rsplit(':').next().unwrap().to_owned()
}

/// Starts an endless loop in a session of its own, on one CPU. Returns when the loop has begun.
fn looping(cpu: usize) -> Victim {
    let victim = Victim::run("taskset", &["-c", &cpu.to_string(), "setsid", "sh", "-c", LOOP]);
    let comm = format!("/proc/{}/comm", victim.tgid());
    until(10 * SECOND, "it loops", || fs::read_to_string(&comm).is_ok_and(|comm| comm == "sh\n"));
    victim
}

fn used(victims: &[Victim]) -> u64 {
    victims.iter().map(|victim| process_cpu_ns(victim.tgid()).unwrap()).sum()
}

#[test]
fn a_nice_value_that_other_sessions_cancel_still_counts() {
    let place = Place::new();
    let in_use = [looping(0)];
    let others: Vec<Victim> = (0..3).map(|_| looping(0)).collect();
    let verdicts = [verdict(in_use[0].tgid(), 1)];
    let mut fair = place.start();
    fair.apply(&verdicts).unwrap();
    let before = (used(&in_use), used(&others));
    for _ in 0..3 {
        sleep(SECOND);
        fair.apply(&verdicts).unwrap();
    }
    let (mine, theirs) = (used(&in_use) - before.0, used(&others) - before.1);
    assert_ne!(group(in_use[0].tgid()), "/", "warned of: {:?}", fair.warnings());
    assert!(mine > 5 * theirs, "{mine} ns in use, {theirs} ns of three others, all in sessions of their own");
    assert_eq!(group(others[0].tgid()), "/");
    fair.apply(&[]).unwrap();
    assert_eq!(group(in_use[0].tgid()), "/");
}

#[test]
fn a_child_of_a_process_in_use_leaves_its_group_by_next_round() {
    let place = Place::new();
    let mut shell = Victim::run("sh", &["-c", "while read line; do sleep 600 & echo $!; done"]);
    let mut fair = place.start();
    fair.apply(&[verdict(shell.tgid(), 1)]).unwrap();
    shell.say("fork");
    let child: u32 = shell.hear().parse().unwrap();
    fair.apply(&[verdict(shell.tgid(), 1)]).unwrap();
    assert_ne!(group(shell.tgid()), "/");
    assert_eq!(group(child), "/");
    // SAFETY: the call takes only numbers; the child is the shell's, which has not waited for it.
    unsafe { libc::kill(child as libc::pid_t, libc::SIGKILL) };
}

#[test]
fn after_a_kill_no_group_of_ours_is_left() {
    let place = Place::new();
    let victim = Victim::sleeper();
    let mut daemon = place.daemon(&[verdict(victim.tgid(), 1)]);
    let ours = group(victim.tgid());
    assert_ne!(ours, "/");
    daemon.kill();
    until(SECOND, "it is where it was", || group(victim.tgid()) == "/");
    let directory = ["cpu", "cpu,cpuacct", ""].map(|mount| format!("/sys/fs/cgroup/{mount}{ours}"));
    until(SECOND, "the group is gone", || !directory.iter().any(|directory| fs::exists(directory).unwrap()));
}

#[test]
fn when_all_is_in_use_the_rest_has_its_share_by_weight() {
    let place = Place::new();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let in_use: Vec<Victim> = (0..cpus).map(looping).collect();
    let _others: Vec<Victim> = (0..cpus).map(looping).collect();
    let verdicts: Vec<_> = in_use.iter().map(|victim| verdict(victim.tgid(), 1)).collect();
    let mut fair = place.start();
    let mut play = |rounds: u32| {
        for _ in 0..rounds {
            fair.apply(&verdicts).unwrap();
            sleep(SECOND);
        }
    };
    play(8);
    let (before, machine) = (used(&in_use), machine_ns());
    play(4);
    let whole = (machine_ns() - machine) as f64;
    let share = (used(&in_use) - before) as f64 / whole;
    println!("in use: {:.1} % of the machine", share * 100.0);
    assert!(share < 0.965, "in use has {share}: less than 5 % (measured by ticks) is left");
    assert!(share > 0.80, "in use has {share} only");
}

/// The time of all CPUs since boot, without the time that a hypervisor took, ns.
fn machine_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let ticks = text.lines().next().unwrap().split_whitespace().skip(1).take(5);
    ticks.map(|ticks| ticks.parse::<u64>().unwrap() * 10_000_000).sum()
}
