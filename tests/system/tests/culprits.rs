//! A planted delay is the first culprit, and is found at its place. Each sample is split into all its
//! parts.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use spry_system_tests::desk::{Program, await_some};
use spry_system_tests::{need_root, number, planter, spry, spry_says};

/// Starts a program that delays the first CPU by 5 ms again and again, until the returned value is
/// dropped.
fn plant(kind: &str) -> Program {
    let mut planted = Program::start(Command::new(planter()).args([kind, "60"]).stdout(Stdio::piped()));
    let mut said = String::new();
    let out = planted.0.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut said).expect("it says so");
    assert_eq!(said, "planted\n");
    planted
}

/// The report of a measurement of the first CPU while a delay of this kind is planted.
fn beside_planted(kind: &str) -> Value {
    let _planted = plant(kind);
    let args = ["latency", "--quiet", "--json", "--cpus", "0", "--threshold", "3000", "--duration", "4"];
    serde_json::from_str(&spry_says(args)).expect("--json prints JSON")
}

/// The first culprit that ran on this machine; time that a hypervisor took is left out.
fn first(report: &Value) -> &Value {
    let culprits = report["culprits"].as_array().unwrap_or_else(|| panic!("none: {report}"));
    culprits.iter().find(|one| one["how"] != "elsewhere").unwrap_or_else(|| panic!("none: {report}"))
}

fn has_frame(culprit: &Value, part: &str) -> bool {
    let frames = culprit["stack"].as_array().expect("a list");
    frames.iter().any(|frame| frame.as_str().is_some_and(|frame| frame.contains(part)))
}

#[test]
fn a_task_held_up_by_a_tracepoint_is_the_first_culprit() {
    need_root();
    let report = beside_planted("tracepoint");
    let culprit = first(&report);
    assert_eq!(
        (&culprit["task"], &culprit["how"]),
        (&"planted".into(), &"not_preempted".into()),
        "{culprit}"
    );
    for part in ["plant_tracepoint", "prctl"] {
        assert!(has_frame(culprit, part), "{part}: {culprit}");
    }
    assert!((4.5e6..20e6).contains(&number(&culprit["worst_ns"])), "{culprit}");
    assert!(number(&culprit["count"]) >= 40.0, "{culprit}");
    assert!(report["verdict"].as_str().is_some_and(|words| words.contains("planted")), "{report}");
}

#[test]
fn a_timer_s_function_in_a_softirq_is_the_first_culprit() {
    need_root();
    let report = beside_planted("softirq");
    let culprit = first(&report);
    assert_eq!(culprit["how"], "interrupt", "{culprit}");
    assert!(culprit["task"].as_str().is_some_and(|name| name.contains("bpf_timer_cb")), "{culprit}");
    for part in ["plant_softirq", "hrtimer_run_softirq"] {
        assert!(has_frame(culprit, part), "{part}: {culprit}");
    }
    assert!(number(&culprit["count"]) >= 40.0, "{culprit}");
}

#[test]
fn a_bpf_program_loaded_during_the_measurement_has_its_name() {
    need_root();
    let dir = tempfile::tempdir().expect("a directory");
    let soon = dir.path().join("soon.json");
    let mut command = Command::new(spry());
    command.args(["latency", "--quiet", "--json", "--cpus", "0", "--threshold", "3000"]);
    command.args(["--checkpoint-every", "100ms", "--checkpoint"]).arg(&soon);
    let mut measuring = Program::start(command.stdout(Stdio::piped()));
    await_some("the first checkpoint", || soon.exists().then_some(()));
    let planted = plant("tracepoint");
    thread::sleep(Duration::from_secs(4));
    drop(planted);
    measuring.signal(libc::SIGINT);
    let mut said = String::new();
    let mut out = measuring.0.stdout.take().expect("it is piped");
    out.read_to_string(&mut said).expect("it prints");
    let report: Value = serde_json::from_str(&said).expect("--json prints JSON");
    let culprit = first(&report);
    assert!(has_frame(culprit, "plant_tracepoint"), "{culprit}");
}

#[test]
fn for_99_in_100_the_parts_add_up_to_the_latency_within_2_us() {
    need_root();
    let args = ["latency", "--quiet", "--json", "--split", "--cpus", "0", "--duration", "4"];
    let report: Value = serde_json::from_str(&spry_says(args)).expect("--json prints JSON");
    let parts = &report["parts"];
    assert_eq!(parts["unseen_ns"]["samples"], report["samples"], "{parts}");
    assert!(number(&parts["unseen_ns"]["quantiles"]["0.99"]) <= 2_000.0, "{parts}");
    for name in ["timer_ns", "irq_ns", "preemption_ns", "scheduling_ns"] {
        assert!(number(&parts[name]["samples"]) >= 0.99 * number(&report["samples"]), "{name}: {parts}");
    }
}
