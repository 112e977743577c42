//! Tests of settings in force: they are given back however their process ends.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use spry_sys::{Signal, outlive, process, signal};

use super::*;
use crate::wish::{Class, Reach, Wish};

fn machine() -> (tempfile::TempDir, Kernel) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    fs::write(path.join("base_slice_ns"), "700000\n").expect("it can be written");
    fs::write(path.join("features"), "A HRTICK B\n").expect("it can be written");
    let kernel = Kernel {
        sched: path.clone(),
        sysctl: path.clone(),
        sched_ext: path.join("no_sched_ext"),
        state: path.join("run/tune"),
    };
    (dir, kernel)
}

const WISH: Wish = Wish { quantum_us: Some(3000), tick_hz: None, class: Class::Fair, reach: Reach::Machine };

fn slice(kernel: &Kernel) -> String {
    fs::read_to_string(kernel.sched.join("base_slice_ns")).expect("it is there").trim().to_owned()
}

fn tuned(kernel: &Kernel) -> AppliedPlan {
    AppliedPlan::new(Plan::of(&WISH, kernel).expect("it can be"), kernel).expect("it can be set")
}

#[test]
fn a_plan_is_in_force_until_it_is_given_back_or_dropped() {
    let (_dir, kernel) = machine();
    let first = tuned(&kernel);
    let knob = Knob {
        name: "base slice",
        scope: Scope::Machine,
        before: Value::Ns(700_000),
        now: Value::Ns(3_000_000),
    };
    assert_eq!((first.knobs(), slice(&kernel)), (&[knob][..], "3000000".to_owned()));
    assert!(first.settings_of_command().is_empty());
    assert_eq!(first.give_back().expect("a book").len(), 1);
    assert_eq!(slice(&kernel), "700000");
    drop(tuned(&kernel));
    assert_eq!(slice(&kernel), "700000");
}

#[test]
fn a_switch_that_another_run_holds_stays_on_after_it() {
    let (_dir, kernel) = machine();
    let features = || fs::read_to_string(kernel.sched.join("features")).expect("it is there");
    fs::write(kernel.sched.join("features"), "NO_HRTICK").expect("it can be written");
    let (first, second) = (tuned(&kernel), tuned(&kernel));
    drop(first);
    assert_eq!((features(), slice(&kernel)), ("HRTICK".to_owned(), "3000000".to_owned()));
    drop(second);
    assert_eq!((features(), slice(&kernel)), ("NO_HRTICK".to_owned(), "700000".to_owned()));
}

/// Waits until a slice is in force.
fn wait_for(kernel: &Kernel, wanted: &str) {
    let began = Instant::now();
    while slice(kernel) != wanted {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", slice(kernel));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that has the plan in force and waits to be killed.
fn process(kernel: &Kernel) -> u32 {
    // SAFETY: the child takes no lock that another thread may hold.
    let child = unsafe {
        outlive::fork(|| {
            // Otherwise this process would hold locks of other tests until it exits.
            outlive::keep_only(&[]);
            let _tuned = tuned(kernel);
            std::thread::sleep(Duration::from_secs(100));
            0
        })
    };
    child.expect("a child")
}

fn kill(child: u32) {
    signal::send(child, Signal::KILL).expect("it runs");
    process::wait(child).expect("it is ours");
}

/// The children of a process: its guardians.
fn guardians(parent: u32) -> Vec<u32> {
    let path = PathBuf::from(format!("/proc/{parent}/task/{parent}/children"));
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_guardian_gives_back_settings_of_a_killed_process() {
    let (_dir, kernel) = machine();
    let child = process(&kernel);
    wait_for(&kernel, "3000000");
    kill(child);
    wait_for(&kernel, "700000");
}

#[test]
fn the_next_run_restores_after_spry_and_guardian_are_killed() {
    let (_dir, kernel) = machine();
    let child = process(&kernel);
    wait_for(&kernel, "3000000");
    let guardians = guardians(child);
    if guardians.is_empty() {
        // This kernel does not list children.
        return kill(child);
    }
    guardians.iter().for_each(|&guardian| signal::send(guardian, Signal::KILL).expect("it runs"));
    kill(child);
    assert_eq!(slice(&kernel), "3000000");
    let other = Wish { quantum_us: Some(9000), ..WISH };
    let next =
        AppliedPlan::new(Plan::of(&other, &kernel).expect("it can be"), &kernel).expect("it can be set");
    assert_eq!(next.knobs()[0].before, Value::Ns(700_000));
    drop(next);
    assert_eq!(slice(&kernel), "700000");
}

#[test]
fn a_setting_that_is_refused_leaves_the_others_as_they_were() {
    let (_dir, kernel) = machine();
    let mut plan = Plan::of(&WISH, &kernel).expect("it can be");
    plan.settings.push(Setting { path: "/proc/version".to_owned(), value: "1".to_owned() });
    assert!(matches!(AppliedPlan::new(plan, &kernel), Err(TuneError::Setting { .. })));
    assert_eq!(slice(&kernel), "700000");
}

#[test]
fn values_are_shown_by_what_their_files_count_in() {
    let value = |path: &str, text: &str| value(&Setting { path: path.to_owned(), value: text.to_owned() });
    assert_eq!(value("/s/sched_rr_timeslice_ms", "3"), Value::Ns(3_000_000));
    assert_eq!(value("/s/sched_rr_timeslice_us", "100"), Value::Ns(100_000));
    assert_eq!(value("/s/base_slice_ns", "700000"), Value::Ns(700_000));
    assert_eq!([value("/s/features", "HRTICK"), value("/s/features", "NO_HRTICK")], [Value::On, Value::Off]);
    let line = serde_json::to_string(&Value::Ns(7)).expect("it can be written");
    assert_eq!(line, "{\"ns\":7}");
}
