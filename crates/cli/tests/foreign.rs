//! Files of perf and trace-cmd through the command itself: from a pipe, with few kinds of events, and with
//! tasks that move unseen.

#[path = "../../see/import/tests/forge/mod.rs"]
#[expect(dead_code, reason = "tests of the import need the rest of it")]
mod forge;

mod command;

use std::fs::{self, File};
use std::process::{Command, Output};

use command::fed;
use forge::{Packing, Record};
use serde_json::Value;

const SWITCH: u16 = 300;
const WAKING: u16 = 301;
const WAKEUP: u16 = 302;

fn kind(record: &Record) -> u16 {
    u16::from_le_bytes([record.data[0], record.data[1]])
}

fn report(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spry"));
    command.arg("report").args(args);
    command
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The report of a file, as text and as JSON.
fn reports(file: &[u8]) -> (String, Value) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any.name");
    fs::write(&path, file).unwrap();
    let text = printed(&report(&["--width", "160"]).arg(&path).output().unwrap());
    let json = printed(&report(&["--json"]).arg(&path).output().unwrap());
    (text, serde_json::from_str(&json).unwrap())
}

#[test]
fn every_form_of_file_is_read_through_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("any.name");
    for (name, file) in forge::forms(&forge::happening(30)) {
        fs::write(&path, &file).unwrap();
        let of_file = printed(&report(&["--json"]).arg(&path).output().unwrap());
        assert!(of_file.len() > 1_000, "{name}: {of_file}");
        assert_eq!(printed(&fed(&["report", "--json", "-"], &file)), of_file, "{name}");
        let redirected = report(&["--json", "-"]).stdin(File::open(&path).unwrap()).output().unwrap();
        assert_eq!(printed(&redirected), of_file, "{name}");
    }
}

/// Every form of file with these kinds of records alone. perf describes no other kinds; trace-cmd may.
fn forms_of(kinds: &[u16]) -> Vec<(String, Vec<u8>)> {
    let mut records = forge::happening(30);
    records.retain(|record| kinds.contains(&kind(record)));
    let mut files = Vec::new();
    for (name, mut file) in forge::forms(&records) {
        if name.starts_with("trace") {
            files.push((format!("{name}, all are described"), file.clone()));
        }
        for (kind, event) in [(WAKING, "sched_waking"), (WAKEUP, "sched_wakeup")] {
            if !kinds.contains(&kind) {
                forge::undescribe(&mut file, event);
            }
        }
        files.push((name.to_owned(), file));
    }
    files
}

/// The values of a field of the four tasks that switched.
fn of_tasks<'a>(report: &'a Value, field: &str) -> Vec<&'a Value> {
    let tasks = report["tasks"].as_array().unwrap().iter();
    let values: Vec<_> = tasks.filter(|task| task["runtime_ns"] != 0).map(|task| &task[field]).collect();
    assert_eq!(values.len(), 4);
    values
}

#[test]
fn a_file_of_switches_alone_knows_no_sleeps_and_no_wake_ups() {
    for (name, file) in forms_of(&[SWITCH]) {
        let (text, report) = reports(&file);
        assert_eq!(text.matches("No wake-ups in this file: record `sched_waking` too.").count(), 1, "{name}");
        for field in ["wakeups", "blocked_ns", "wait_share"] {
            let values = of_tasks(&report, field);
            assert!(values.iter().all(|value| value.is_null()), "{name}: {values:?}");
        }
        assert!(report["wakeup"].is_null() && report["edges"].is_null(), "{name}");
    }
}

#[test]
fn a_file_without_wakings_knows_sleeps_and_no_wakers() {
    for (name, file) in forms_of(&[SWITCH, WAKEUP]) {
        let (text, report) = reports(&file);
        assert!(text.contains("No wakings in this file"), "{name}: {text}");
        assert!(report["wakeup"].is_null() && report["edges"].is_null(), "{name}");
        for field in ["wakeups", "blocked_ns", "runnable_wait_ns"] {
            let values = of_tasks(&report, field);
            assert!(values.iter().all(|value| value.as_u64() > Some(0)), "{name}: {field}: {values:?}");
        }
    }
}

#[test]
fn a_file_of_wakings_and_switches_has_each_wake_up() {
    for (name, file) in forms_of(&[SWITCH, WAKING]) {
        let (text, report) = reports(&file);
        assert!(!text.contains("in this file: record"), "{name}: {text}");
        for field in ["wakeups", "blocked_ns", "runnable_wait_ns"] {
            let values = of_tasks(&report, field);
            assert!(values.iter().all(|value| value.as_u64() > Some(0)), "{name}: {field}: {values:?}");
        }
    }
}

/// The wait of task 11 after its wake-up: its CPU, its length and its culprits with their times.
fn wait(file: &[u8]) -> (u64, u64, Vec<(String, u64)>) {
    let (_, report) = reports(file);
    let delays = report["delays"]["worst"].as_array().unwrap();
    let delay = delays.iter().find(|delay| delay["victim"]["tid"] == 11).unwrap();
    let culprit =
        |culprit: &Value| (culprit["name"].as_str().unwrap().to_owned(), culprit["ran_ns"].as_u64().unwrap());
    let culprits = delay["culprits"].as_array().unwrap().iter().map(culprit).collect();
    (delay["cpu"].as_u64().unwrap(), delay["wait_ns"].as_u64().unwrap(), culprits)
}

#[test]
fn a_wait_is_counted_for_the_cpu_that_the_task_then_got() {
    let records = forge::woken_elsewhere();
    let blamed = |wait_ns| (1, wait_ns, vec![("task-22".to_owned(), wait_ns)]);
    for (name, file) in forge::forms(&records) {
        assert_eq!(wait(&file), blamed(999_999), "{name}");
    }
    // A recording without wake-ups, or with wakings alone: the waking's CPU is that of the sleep.
    let wakings: Vec<Record> = records.iter().filter(|record| kind(record) != WAKEUP).cloned().collect();
    let packed = forge::trace_dat_7(&wakings, Packing::Zstd);
    assert_eq!(wait(&packed), blamed(1_000_000), "wake-ups are described, but not recorded");
    for mut file in [forge::perf_plain(&wakings), forge::perf_piped(&wakings), forge::trace_dat_6(&wakings)] {
        forge::undescribe(&mut file, "sched_wakeup");
        assert_eq!(wait(&file), blamed(1_000_000));
    }
    // An interrupt on CPU 0, which is idle, wakes the task for CPU 1.
    let mut by_idle = records;
    for record in by_idle.iter_mut().filter(|record| kind(record) != SWITCH) {
        record.cpu = 0;
        record.data[4..8].fill(0);
    }
    for (name, file) in forge::forms(&by_idle) {
        assert_eq!(wait(&file), blamed(999_999), "{name}");
    }
}

#[test]
fn a_task_that_is_woken_and_never_runs_waits_to_the_end() {
    let mut records = forge::woken_elsewhere();
    records.retain(|record| ![4_000_000, 5_000_000].contains(&record.time_ns));
    let wakings: Vec<Record> = records.iter().filter(|record| kind(record) != WAKEUP).cloned().collect();
    let mut undescribed = forge::trace_dat_6(&wakings);
    forge::undescribe(&mut undescribed, "sched_wakeup");
    let files = [
        (3_000_001, forge::trace_dat_7(&records, Packing::None)),
        (3_000_000, forge::trace_dat_7(&wakings, Packing::Zlib)),
        (3_000_000, forge::trace_dat_6(&wakings)),
        (3_000_000, undescribed),
    ];
    for (woken_ns, file) in files {
        let (_, report) = reports(&file);
        let end_ns = report["trace"]["duration_ns"].as_u64().unwrap() + 1_000_000;
        let task = report["tasks"].as_array().unwrap().iter().find(|task| task["tid"] == 11).unwrap();
        assert_eq!(task["runnable_wait_ns"], end_ns - woken_ns, "{task}");
        assert_eq!(task["blocked_ns"], woken_ns - 2_000_000, "{task}");
    }
    // This file has lost events of CPU 1 before its end: the task may have run there.
    let (_, report) = reports(&forge::perf_plain(&records));
    let task = report["tasks"].as_array().unwrap().iter().find(|task| task["tid"] == 11).unwrap();
    assert_eq!((&task["runnable_wait_ns"], &task["blocked_ns"]), (&0.into(), &1_000_001.into()), "{task}");
    assert!(task["unknown_ns"].as_u64() >= Some(3_000_000), "{task}");
}
