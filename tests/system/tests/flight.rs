//! The flight recorder keeps the trace that led to a delay, and writes nothing if there was no delay.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_sys::cpus::set_cpu;
use spry_sys::schedule::set_fifo;
use spry_system_tests::{need_root, report, spry};

/// Puts the calling thread on the first CPU, in the real-time class FIFO.
fn first_cpu_fifo(priority: u8) {
    set_cpu(0).expect("root may");
    set_fifo(priority).expect("root may");
}

fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {}
}

/// A thread `late-victim` that sleeps for short times, until the value is dropped.
struct Victim(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);

impl Victim {
    fn start() -> Victim {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let naps = move || {
            first_cpu_fifo(10);
            while !ends.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(2));
            }
        };
        Victim(is_over, thread::Builder::new().name("late-victim".into()).spawn(naps).ok())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().expect("it was started").join().expect("it naps");
    }
}

/// The output of a flight recorder that keeps two seconds and waits for a latency of more than 40 ms. If
/// `is_delayed`, a delay of 60 ms comes after four seconds.
fn flown(file: &Path, is_delayed: bool) -> Value {
    let _victim = Victim::start();
    let mut command = Command::new(spry());
    command.args(["record", "--quiet", "--json", "--flight", "2", "--when", "latency>40ms of late-vic*"]);
    command.args(["--duration", "7", "-o"]).arg(file).stdout(Stdio::piped());
    let recorder = command.spawn().expect("spry starts");
    thread::sleep(Duration::from_secs(4));
    if is_delayed {
        let spins = || {
            first_cpu_fifo(50);
            spin(Duration::from_millis(60));
        };
        let hog = thread::Builder::new().name("late-hog".into()).spawn(spins).expect("a thread");
        hog.join().expect("it spins");
    }
    let output = recorder.wait_with_output().expect("it ends");
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).expect("a line of JSON")
}

#[test]
fn a_delay_is_kept_with_its_culprit_and_the_seconds_before() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("late.spry");
    let said = flown(&file, true);
    let kept = &said["kept"][0];
    assert_eq!(kept["task"], "late-victim", "{said}");
    assert!(kept["latency_ns"].as_u64().is_some_and(|ns| (40_000_000..80_000_000).contains(&ns)), "{said}");
    let found = report(&file);
    let trace_ns = found["trace"]["duration_ns"].as_u64().expect("it has a length");
    // The trace has the two seconds, perhaps a part of the recorder's buffer more, and the time after the
    // delay.
    assert!((1_800_000_000..3_000_000_000).contains(&trace_ns), "{trace_ns}");
    let worst = found["delays"]["worst"].as_array().expect("a list");
    let delay = worst.iter().find(|delay| delay["victim"]["comm"] == "late-victim");
    let delay = delay.unwrap_or_else(|| panic!("{worst:?}"));
    assert_eq!(delay["culprits"][0]["name"], "late-hog", "{delay}");
}

#[test]
fn where_nothing_is_late_nothing_is_written() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("late.spry");
    let said = flown(&file, false);
    assert_eq!(said["kept"], Value::Array(Vec::new()), "{said}");
    assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
}
