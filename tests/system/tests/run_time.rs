//! The run time of a task in a report agrees with the kernel's account.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use spry_system_tests::{Recording, need_root, number, of_threads, report, spry_says, task};

/// `sum_exec_runtime` of each thread of a process, ns: the first field of its `schedstat`.
fn kernel_accounts(tgid: u32) -> Vec<(u32, f64)> {
    let ran_ns = |text: String| text.split(' ').next().and_then(|field| field.parse().ok());
    let threads = of_threads(tgid, "schedstat").into_iter();
    threads.map(|(tid, text)| (tid, ran_ns(text).expect("a number of nanoseconds"))).collect()
}

#[test]
fn run_time_is_the_kernel_s_within_a_thousandth_or_20_us() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("busy.spry");
    let recording = Recording::start(&trace, "sched");
    let mut busy = Command::new(env!("CARGO_BIN_EXE_busy"))
        .arg("4")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the load starts");
    let mut said = String::new();
    BufReader::new(busy.stdout.take().expect("it is piped"))
        .read_line(&mut said)
        .expect("the load says when it is done");
    assert_eq!(said, "done\n");
    // All threads wait now. The kernel's accounts of them do not change until the end of the recording.
    thread::sleep(Duration::from_millis(300));
    let kernel = kernel_accounts(busy.id());
    recording.stop();
    drop(busy.stdin.take());
    assert!(busy.wait().expect("the load ends").success());

    let report = report(&trace);
    assert_eq!(kernel.len(), 8, "the load has seven habits and a main thread");
    let mut wrong = Vec::new();
    for (tid, kernel_ns) in kernel {
        let spry_ns = number(&task(&report, tid)["runtime_ns"]);
        if (spry_ns - kernel_ns).abs() > (kernel_ns / 1000.0).max(20_000.0) {
            wrong.push(format!("task {tid}: spry {spry_ns} ns, kernel {kernel_ns} ns"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn run_time_agrees_for_tasks_at_both_ends_of_a_recording() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    // There are more processes than CPUs: when the recording begins and ends, some run and some wait.
    let count = 2 * thread::available_parallelism().expect("a number of CPUs").get() + 1;
    let mut hogs = Hogs((0..count).map(|_| spin()).collect());
    for round in 0..3 {
        let trace = dir.path().join(format!("hogs{round}.spry"));
        let options = ["record", "--quiet", "--duration", "1", "-o"].map(OsStr::new);
        spry_says(options.into_iter().chain([trace.as_os_str()]));
        let report = report(&trace);
        assert!(
            number(&report["trace"]["duration_ns"]) < 1.5e9,
            "the recorded span is about what was asked for"
        );
        let mut wrong = Vec::new();
        for hog in &hogs.0 {
            let task = task(&report, hog.id());
            let kernel = &task["kernel"];
            let (kernel_ns, spry_ns) = (number(&kernel["exec_ns"]), number(&kernel["runtime_ns"]));
            assert!(kernel_ns > 50e6, "task {} ran", hog.id());
            if (kernel_ns - spry_ns).abs() > (kernel_ns / 1000.0).max(20_000.0) {
                wrong.push(format!("task {}: spry {spry_ns} ns, kernel {kernel_ns} ns", hog.id()));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    hogs.end();
}

/// A process that only runs.
fn spin() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell starts")
}

/// Processes that are killed when the test ends.
struct Hogs(Vec<Child>);

impl Hogs {
    fn end(&mut self) {
        for mut hog in self.0.drain(..) {
            // If a process has ended already, there is nothing to kill.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.end();
    }
}
