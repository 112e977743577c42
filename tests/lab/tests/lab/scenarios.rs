//! Tests shipped scenarios in the lab: two runs of the same scenario have the same digest, and published
//! schedulers can be measured.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use spry_lab_tests::{emulators_of, is_long, programs};
use spry_sys::Signal;

/// The output of `spry run --json` for a scenario in the lab. The results are kept in the directory `kept`.
fn spry_run(kept: &Path, scenario: &str, args: &[&str]) -> Value {
    value_of(&command(kept, scenario, args).output().expect("spry starts"))
}

fn command(kept: &Path, scenario: &str, args: &[&str]) -> Command {
    let mut command = Command::new(programs().join("spry"));
    command.args(["run", scenario, "--on", "lab", "--json", "-o"]).arg(kept).args(args);
    command
}

fn value_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

/// The same output, while the host lets the emulator run for two fifths of the time, some ms at once.
fn spry_run_held_up(kept: &Path, scenario: &str, args: &[&str]) -> Value {
    let mut command = command(kept, scenario, args);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spry starts");
    let mut holds = 0_u64;
    while running.try_wait().expect("it is a child").is_none() {
        for emulator in emulators_of(running.id()) {
            // An emulator that has just ended is still a child that was not waited for, or it does not exist.
            if spry_sys::signal::send(emulator, Signal::STOP).is_ok() {
                thread::sleep(Duration::from_millis(15 + holds * 7 % 30));
                _ = spry_sys::signal::send(emulator, Signal::CONT);
                holds += 1;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    assert!(holds > 500, "it was held up {holds} times");
    value_of(&running.wait_with_output().expect("it has ended"))
}

fn assert_repeats(scenario: &str, args: &[&str]) -> Value {
    assert_repeats_by(spry_run, scenario, args)
}

/// Checks that a second run, by `runs`, has the results of the first run.
fn assert_repeats_by(runs: fn(&Path, &str, &[&str]) -> Value, scenario: &str, args: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = spry_run(&directory.path().join("first"), scenario, args);
    let again = runs(&directory.path().join("again"), scenario, args);
    assert_eq!(first["inputs"], again["inputs"]);
    assert_eq!(first["cells"], again["cells"]);
    assert_eq!(first["digest"], again["digest"]);
    first
}

#[test]
fn a_film_beside_hogs_repeats_under_eevdf_and_a_peer() {
    let args = ["--scheduler", "eevdf", "--scheduler", "scx_bpfland", "--vary", "stressers=2"];
    let run = assert_repeats("movie", &args);
    for cell in run["cells"].as_array().expect("cells") {
        let shown = cell["metrics"]["frames_shown"].as_u64().expect("frames are counted");
        assert!((1..250).contains(&shown), "{cell}");
    }
}

#[test]
fn a_compilation_of_a_source_package_repeats_on_a_stalling_host() {
    // Two seconds of the shipped scenario: the emulation of each second takes the host some 12 s.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (shipped, short) = ("duration_s = 10", "duration_s = 2");
    let scenario = include_str!("../../../../scenarios/compile.toml");
    assert!(scenario.contains(shipped), "{scenario}");
    let file = directory.path().join("compile.toml");
    std::fs::write(&file, scenario.replace(shipped, short)).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let run = assert_repeats_by(spry_run_held_up, file, &["--vary", "films=0"]);
    assert!(run["cells"][0]["metrics"]["files_compiled"].as_u64() >= Some(2), "{run}");
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
fn a_film_and_typing_beside_shells_that_fork_are_unimpaired() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let seeds = if is_long() { "3" } else { "1" };
    let args = ["--scheduler", "spry", "--vary", "relays=0,2", "--vary", "seconds=6", "--seeds", seeds];
    let run = spry_run(&directory.path().join("kept"), "attacked-x11", &args);
    let cells = run["cells"].as_array().expect("cells");
    let median_of = |quantile: &str, cells: &[Value]| {
        let drawn = cells.iter().map(|cell| cell["metrics"]["response_ns"][quantile].as_f64());
        let mut late: Vec<f64> = drawn.map(|ns| ns.expect("keys are drawn")).collect();
        late.sort_by(f64::total_cmp);
        late[late.len() / 2]
    };
    for cell in cells {
        assert_eq!(cell["metrics"]["frames_shown"], cell["metrics"]["frames_due"], "{cell}");
    }
    let (without, with) = cells.split_at(cells.len() / 2);
    // The 99 % of a run of 6 s is its slowest key. In five draws of a seed it was 1.43 to 2.03 times as late
    // with shells that fork as without (in builds before: 1.06). The median was 1.001 times as late.
    for (quantile, most) in [("p50", 1.1), ("p99", 2.6)] {
        let [without, with] = [without, with].map(|cells| median_of(quantile, cells));
        println!("{quantile} of keys are drawn within {without} ns, and {with} ns with them; {seeds} seeds");
        assert!(with <= most * without, "{quantile}: {without} ns, and {with} ns with them");
    }
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
