//! A recording inside namespaces has the same contents as a recording outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;
use spry_system_tests::{hidden_threads, need_root, number, report, run, spry, spry_says, task};
use tempfile::TempDir;

/// A process that existed before the recording, outside of any namespace, and that runs now and then.
struct Outside(Child);

impl Outside {
    fn start() -> Outside {
        let child = Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn();
        Outside(child.expect("a shell starts"))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Records a shell's `script` from inside of the namespaces that `unshare` makes with these arguments.
fn record_within(namespaces: &[&str], groups: &str, script: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("scratch space");
    let trace = directory.path().join("inside.spry");
    let mut command = Command::new("unshare");
    command.args(namespaces).arg(spry()).args(["record", "--quiet", "--events", groups, "-o"]).arg(&trace);
    let output = run(command.args(["--", "sh", "-c", script]).current_dir(&directory));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{namespaces:?}");
    (directory, trace)
}

/// The tasks of a report that `--task` selects.
fn selected(trace: &Path, number: &str) -> Vec<Value> {
    let said = spry_says([
        "report".as_ref(),
        trace.as_os_str(),
        "--json".as_ref(),
        "--task".as_ref(),
        number.as_ref(),
    ]);
    let report: Value = serde_json::from_str(&said).expect("report --json prints JSON");
    report["tasks"].as_array().expect("the report lists tasks").clone()
}

const PID: &[&str] = &["--pid", "--fork", "--mount-proc"];

#[test]
fn tasks_outside_a_pid_namespace_have_names_and_processes() {
    need_root();
    let outside = Outside::start();
    let deeper = ["--pid", "--fork", "--mount-proc", "unshare", "--pid", "--fork", "--mount-proc"];
    for namespaces in [PID, &["--pid", "--fork"], &deeper] {
        let (_directory, trace) = record_within(namespaces, "sched", "sleep 0.2");
        let report = report(&trace);
        let shell = task(&report, outside.0.id());
        assert_eq!((&shell["comm"], &shell["tgid"]), (&"sh".into(), &outside.0.id().into()));
        let tasks = report["tasks"].as_array().expect("the report lists tasks");
        let recorder = report["trace"]["recorder_tgid"].as_u64().expect("the recorder's process is known");
        let own: Vec<&Value> = tasks.iter().filter(|task| task["tgid"] == recorder).collect();
        assert!(own.iter().any(|task| task["comm"] == "spry-drain"), "{namespaces:?}: {own:?}");
        assert!(recorder > 10, "a number of the outermost namespace, not {recorder}");
        // Some virtual machines hide their first process: no list of tasks has its threads.
        let hidden = hidden_threads();
        let nameless = tasks.iter().filter(|task| task["comm"] == "");
        let nameless: Vec<_> = nameless.filter_map(|task| task["tid"].as_u64()).collect();
        let others: Vec<_> = nameless.iter().filter(|tid| !hidden.contains(*tid)).collect();
        // A process that ends as the recording begins is in no list any more, but gives its CPU away. The
        // loop outside has one such process at a time.
        assert!(others.len() <= 1, "{namespaces:?}: {others:?} of {} tasks", tasks.len());
    }
}

#[test]
fn a_task_is_selected_by_its_number_inside_and_outside() {
    need_root();
    let script = "sleep 0.1 & echo $! >inner; wait; exec sleep 0.1";
    let (directory, trace) = record_within(PID, "sched", script);
    let inner = fs::read_to_string(directory.path().join("inner")).expect("the shell wrote it");
    let found = selected(&trace, inner.trim());
    let child = found.iter().find(|task| task["comm"] == "sleep").expect("the shell's child is found");
    let (tid, tgid) = (child["tid"].as_u64(), child["tgid"].as_u64());
    assert_eq!(tid, tgid);
    assert_ne!(tid, inner.trim().parse().ok(), "the report has the number outside");
    let outside = selected(&trace, &tid.expect("a number").to_string());
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(outside[0]["comm"], "sleep");
    // The recorder is the namespace's first process; all its threads are selected by its number.
    let recorder = selected(&trace, "1");
    let drains = recorder.iter().filter(|task| task["comm"] == "spry-drain").count();
    assert_eq!(drains, 1, "{recorder:?}");
}

#[test]
fn stacks_in_a_pid_namespace_name_the_files_of_their_process() {
    need_root();
    let busy = "for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=1M count=1000 2>/dev/null & done; wait";
    for namespaces in [PID, &["--pid", "--fork"]] {
        let (directory, trace) = record_within(namespaces, "sched,stack", busy);
        let rows = directory.path().join("rows.csv");
        let args = ["export".as_ref(), trace.as_os_str(), "--to".as_ref(), "csv".as_ref(), "-o".as_ref()];
        spry_says(args.into_iter().chain([rows.as_os_str()]));
        let rows = fs::read_to_string(&rows).expect("the export can be read");
        assert!(rows.contains("libc.so.6+0x"), "{namespaces:?}: no stack of dd names the C library");
    }
}

/// The mean and the greatest lateness of the timers in a recording within namespaces, ns. Only timers that
/// end sleeps count, since the wheel's timers count jiffies.
fn lateness(namespaces: &[&str]) -> (f64, f64) {
    let (_directory, trace) = record_within(namespaces, "sched,timer", "for i in 1 2 3; do sleep 0.05; done");
    let report = report(&trace);
    let timers = report["timers"].as_array().expect("the report lists timers");
    let sleeps = timers.iter().find(|timer| timer["kind"] == "sleep").expect("the shell's children slept");
    let length_ns = number(&report["trace"]["duration_ns"]);
    assert!((0.15e9..60e9).contains(&length_ns), "{namespaces:?}: {length_ns} ns");
    assert!(number(&report["trace"]["start_unix_ns"]) > 0.0);
    let shell = report["tasks"].as_array().expect("the report lists tasks");
    let shell = shell.iter().find(|task| task["comm"] == "spry-drain").expect("the recorder is listed");
    assert!(number(&shell["runtime_ns"]) < length_ns, "{shell}");
    (number(&sleeps["lateness_ns"]["mean"]), number(&sleeps["lateness_ns"]["max"]))
}

#[test]
fn timers_in_a_time_namespace_are_as_late_as_outside() {
    need_root();
    let ahead = ["--time", "--fork", "--monotonic", "100000"];
    let behind = ["--time", "--fork", "--monotonic", "-20"];
    let other_clock = ["--time", "--fork", "--boottime", "100000"];
    let both = ["--time", "--pid", "--mount-proc", "--fork", "--monotonic", "100000"];
    for namespaces in [ahead.as_slice(), &behind, &other_clock, &both] {
        let (mean_ns, max_ns) = lateness(namespaces);
        assert!(mean_ns > 0.0 && max_ns < 10e9, "{namespaces:?}: {mean_ns} ns, at most {max_ns} ns");
    }
}

#[test]
fn samples_inside_namespaces_are_split() {
    need_root();
    for namespaces in
        [PID, &["--time", "--fork", "--monotonic", "1000"], &["--time", "--fork", "--monotonic=-9"]]
    {
        split(namespaces);
    }
}

fn split(namespaces: &[&str]) {
    let output = run(Command::new("unshare").args(namespaces).arg(spry()).args([
        "latency",
        "--duration",
        "0.3",
        "--split",
        "--json",
    ]));
    let said: Value = serde_json::from_slice(&output.stdout).expect("latency --json prints JSON");
    let split = &said["parts"];
    for part in ["timer_ns", "irq_ns", "preemption_ns", "scheduling_ns"] {
        assert!(
            split[part]["mean_ns"].as_f64().is_some_and(|mean_ns| mean_ns > 0.0),
            "{part} in {namespaces:?}: {split}"
        );
    }
}
