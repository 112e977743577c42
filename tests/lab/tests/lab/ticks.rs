//! Tests the knobs of tick and quantum in the lab: what a short quantum gives to alarms, and what it costs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spry_lab_tests::programs;

/// Eight processes that compute always, and are sent alarms after 1 to 1000 ms by chance (section 7 of
/// "Effects of clock resolution").
const ALARMS: &str = r#"
name = "alarms-other"
about = "alarms of processes that compute always"
warmup_s = 1
duration_s = 8
measure = ["latency_ns"]

[[task]]
name = "alarms"
kind = "alarms"
count = 8
load = "CONT"
"#;

/// Loops that say how much work they did.
const LOOPS: &str = r#"
name = "loops-of-one-cpu"
about = "endless loops on one CPU"
warmup_s = 1
duration_s = 2
measure = ["work_ns"]

[variables]
loops = { default = 2, min = 1, max = 8, about = "endless loops" }

[[task]]
name = "loop"
kind = "worker"
count = "$loops"
"#;

/// The knobs of the paper's fast machine.
const FAST: &str = "spry:--tick-hz 20000 --quantum-us 100";

/// The metrics of each cell of a scenario under some schedulers, in the order of the cells.
fn cells(directory: &Path, scenario: &str, args: &[&str]) -> Vec<Value> {
    let file = directory.join("scenario.toml");
    fs::write(&file, scenario).expect("a file");
    let mut command = Command::new(programs().join("spry"));
    command
        .arg("run")
        .arg(&file)
        .args(["--on", "lab", "--json", "-o"])
        .arg(directory.join("kept"))
        .args(args);
    let output = command.output().expect("spry starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    run["cells"].as_array().expect("cells").iter().map(|cell| cell["metrics"].clone()).collect()
}

#[test]
fn with_a_quantum_of_100_us_alarms_come_within_a_millisecond() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let found = cells(directory.path(), ALARMS, &["--scheduler", FAST]);
    println!("{found:?}");
    let late = |quantile: &str| found[0]["latency_ns"][quantile].as_f64().expect("alarms came");
    assert!(found[0]["alarms"].as_u64() >= Some(100), "{found:?}");
    // Seven other processes have a quantum each before it: 700 us. The paper has 656 us for 90 %.
    assert!(late("p90") <= 700_000.0 && late("p99") <= 1_000_000.0, "{found:?}");
}

#[test]
fn a_tick_of_20000_hz_costs_little_and_nothing_to_one_alone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Measured: 0.01 and 7.73 %.
    for (loops, most) in [(1, 0.002), (2, 0.095)] {
        let vary = format!("loops={loops}");
        let args = ["--scheduler", "spry", "--scheduler", FAST, "--vary", &vary];
        let kept = directory.path().join(vary.clone());
        fs::create_dir(&kept).expect("a directory");
        let did: Vec<f64> = cells(&kept, LOOPS, &args)
            .iter()
            .map(|metrics| metrics["work_ns"]["sum"].as_f64().expect("work was done"))
            .collect();
        let cost = 1.0 - did[1] / did[0];
        println!("{loops} loops: {did:?} ns of work, {:.2} % less", cost * 100.0);
        assert!(cost <= most, "{loops} loops: {did:?}");
    }
}
