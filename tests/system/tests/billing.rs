//! Billing at the tick: the papers' display-server case, and the kernel's own samples.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use spry_system_tests::{Recording, Table, need_root, number, report, run, task};

/// The ratio of billed time to real time at a tick rate.
fn ratio(task: &Value, hz: u64) -> f64 {
    let billing = task["billing"].as_array().expect("the report bills");
    let entry = billing.iter().find(|entry| entry["hz"] == hz);
    number(&entry.unwrap_or_else(|| panic!("no billing at {hz} Hz"))["ratio"])
}

#[test]
fn a_task_that_dodges_100_hz_ticks_is_billed_at_1000_hz_only() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("server.spry");
    let recording = Recording::start(&trace, "sched");
    // The server runs in the first-in-first-out class, so that no other work of the machine moves its 9 ms
    // over a tick.
    let server = env!("CARGO_BIN_EXE_display-server");
    let mut child = Command::new("chrt")
        .args(["--fifo", "40", "taskset", "-c", "0", server, "5"])
        .spawn()
        .expect("chrt starts");
    // chrt and taskset become the server by exec: the task stays the same.
    let tid = child.id();
    assert!(child.wait().expect("the server ends").success());
    recording.stop();

    let report = report(&trace);
    let server = task(&report, tid);
    let busy = number(&server["runtime_ns"]) / 5e9;
    assert!((0.8..0.95).contains(&busy), "the server ran {busy} of the time, not nine tenths");
    assert!(ratio(server, 100) < 0.05, "at 100 Hz it was billed {} of its time", ratio(server, 100));
    assert!(ratio(server, 1000) > 0.9, "at 1000 Hz it was billed {} of its time", ratio(server, 1000));
}

/// The first and the last value of the kernel's account by tick samples for each task, ns.
type Samples = BTreeMap<u64, (u64, u64)>;

/// The kernel's tick samples of each task, and the tick rate, both from the trace itself.
fn kernel_samples(table: Table) -> (Samples, u64) {
    let mut samples = Samples::new();
    let mut due_ns: BTreeMap<u64, u64> = BTreeMap::new();
    let mut period_ns = u64::MAX;
    table.each(|row| match row.text("event") {
        "stat" => {
            let tid = row.number("tid").expect("an account names its task");
            let billed = row.number("utime_ns").expect("user samples")
                + row.number("stime_ns").expect("kernel samples");
            samples.entry(tid).or_insert((billed, billed)).1 = billed;
        }
        // The kernel's account of a task that is created while recording starts at 0.
        "fork" => {
            samples.insert(row.number("other_tid").expect("a child"), (0, 0));
        }
        "tick" => {
            let due = row.number("due_ns").expect("a tick is due at some time");
            if let Some(before) = due_ns.insert(row.number("cpu").expect("a CPU"), due) {
                period_ns = period_ns.min(due.saturating_sub(before).max(500_000));
            }
        }
        _ => {}
    });
    (samples, (1e9 / period_ns as f64).round() as u64)
}

#[test]
fn billing_at_the_kernel_s_rate_agrees_with_its_samples() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("busy.spry");
    let recording = Recording::start(&trace, "sched");
    let load =
        "for i in 1 2 3; do sha256sum /dev/zero & done; perf bench sched pipe -l 100000; kill %1 %2 %3";
    run(Command::new("timeout").args(["60", "bash", "-c", load]));
    let summary = recording.stop();

    let seconds = number(&summary["duration_ns"]) / 1e9;
    let (samples, hz) = kernel_samples(Table::of(&trace, dir.path()));
    let tick_ns = 1e9 / hz as f64;
    let report = report(&trace);
    // At each tick the kernel subtracts from the sample the time that the hypervisor took since the preceding
    // tick, even if another task lost that time.
    let cpus = report["cpus"].as_array().expect("the report lists CPUs");
    let stolen_ns: f64 = cpus.iter().map(|cpu| number(&cpu["stolen_ns"]).max(0.0)).sum();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for task in report["tasks"].as_array().expect("the report lists tasks") {
        let tid = task["tid"].as_u64().expect("a thread");
        let Some(&(first, last)) = samples.get(&tid).filter(|_| tid != 0) else { continue };
        let runtime_ns = number(&task["runtime_ns"]);
        // A task that never ran has no time to bill.
        let billed_ns = if runtime_ns > 0.0 { ratio(task, hz) * runtime_ns } else { 0.0 };
        let kernel_ns = last as f64 - first as f64;
        compared += u32::from(kernel_ns > 0.0);
        let bound_ns = tick_ns * seconds.max(1.0);
        if !(-bound_ns..=bound_ns + stolen_ns).contains(&(billed_ns - kernel_ns)) {
            wrong.push(format!(
                "task {tid} {}: spry {billed_ns:.0} ns, kernel {kernel_ns:.0} ns",
                task["comm"]
            ));
        }
    }
    assert!(compared >= 4, "only {compared} tasks were billed by the kernel");
    assert!(wrong.is_empty(), "in {seconds} s at {hz} Hz, {stolen_ns} ns stolen\n{}", wrong.join("\n"));
}
