//! Shipped scenarios in the lab: the same run twice has the same digest, and published schedulers take part.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spry_lab_tests::programs;

/// What `spry run --json` prints of a scenario in the lab; the results are kept in this directory.
fn spry_run(kept: &Path, scenario: &str, args: &[&str]) -> Value {
    let mut command = Command::new(programs().join("spry"));
    command.args(["run", scenario, "--on", "lab", "--json", "-o"]).arg(kept).args(args);
    let output = command.output().expect("spry starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

fn assert_repeats(scenario: &str, args: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = spry_run(&directory.path().join("first"), scenario, args);
    let again = spry_run(&directory.path().join("again"), scenario, args);
    assert_eq!(first["inputs"], again["inputs"]);
    assert_eq!(first["cells"], again["cells"]);
    assert_eq!(first["digest"], again["digest"]);
    first
}

#[test]
fn a_film_beside_hogs_repeats_under_the_stock_scheduler_and_a_peer() {
    let args = ["--scheduler", "eevdf", "--scheduler", "scx_bpfland", "--vary", "stressers=2"];
    let run = assert_repeats("movie", &args);
    for cell in run["cells"].as_array().expect("cells") {
        let shown = cell["metrics"]["frames_shown"].as_u64().expect("frames are counted");
        assert!((1..250).contains(&shown), "{cell}");
    }
}

#[test]
fn typing_into_a_window_of_a_real_x_server_repeats() {
    let run = assert_repeats("typing-x11", &["--vary", "stressers=2"]);
    let p50_ns = run["cells"][0]["metrics"]["response_ns"]["p50"].as_u64().expect("keys are drawn");
    assert!((1_000_000..100_000_000).contains(&p50_ns), "{run}");
}

#[test]
fn typing_on_a_keyboard_of_the_kernel_at_xorg_repeats() {
    let run = assert_repeats("typing-xorg", &["--vary", "stressers=2"]);
    let metrics = &run["cells"][0]["metrics"];
    let p50_ns = metrics["response_ns"]["p50"].as_u64().expect("keys are drawn");
    assert!((1_000_000..100_000_000).contains(&p50_ns), "{run}");
    assert_eq!((&metrics["keys_lost"], &metrics["keys_drawn"]), (&0.into(), &metrics["keys_typed"]), "{run}");
}

#[test]
fn a_film_and_typing_beside_shells_that_fork_each_millisecond_are_as_without_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let args = ["--scheduler", "spry", "--vary", "relays=0,2"];
    let run = spry_run(&directory.path().join("kept"), "attacked-x11", &args);
    let late: Vec<f64> = run["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .map(|cell| {
            assert_eq!(cell["metrics"]["frames_shown"], cell["metrics"]["frames_due"], "{cell}");
            cell["metrics"]["response_ns"]["p99"].as_f64().expect("keys are drawn")
        })
        .collect();
    println!("99 % of keys are drawn within, without and with them: {late:?} ns");
    assert!(late[1] <= 1.1 * late[0], "{late:?}");
}

#[test]
fn a_recorded_cell_leaves_a_trace_that_the_report_reads() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let kept = directory.path().join("kept");
    spry_run(&kept, "movie", &["--record", "--vary", "stressers=1"]);
    let traces: Vec<_> = std::fs::read_dir(kept.join("traces")).expect("traces").collect();
    assert_eq!(traces.len(), 1);
    let trace = traces[0].as_ref().expect("a trace").path();
    let mut report = Command::new(programs().join("spry"));
    let report = report.args(["report", "--json"]).arg(trace).output().expect("spry starts");
    let found: Value = serde_json::from_slice(&report.stdout).expect("it prints JSON");
    assert_eq!(found["trace"]["lost"], 0);
    let tasks = found["tasks"].as_array().expect("tasks");
    assert!(tasks.iter().any(|task| task["comm"] == "player"), "{tasks:?}");
}
