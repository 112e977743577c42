//! `spry latency` on this kernel: every source of samples, planted delays, permissions,
//! interruptions and kills.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_latency::{End, Results};
use spry_system_tests::desk::{Program, as_nobody, await_some};
use spry_system_tests::{need_root, number, run, spry, spry_says};

fn measure(args: &[&str]) -> Value {
    let said = spry_says(["latency", "--quiet", "--json"].iter().chain(args));
    serde_json::from_str(&said).expect("--json prints JSON")
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(spry());
    command.args(["latency", "--quiet"]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("spry starts")
}

fn signal(child: &Child, signal: i32) {
    // The child was not waited for, so the process id is still its own.
    spry_sys::signal::send_number(child.id(), signal).expect("it is still there");
}

#[test]
fn a_sleep_and_a_timer_each_give_a_sample_a_period() {
    need_root();
    for source in ["nanosleep", "timerfd"] {
        let report = measure(&["--source", source, "--duration", "2", "--cpus", "0"]);
        let periods = number(&report["samples"]) + number(&report["missed"]);
        let longest_periods = number(&report["max_ns"]) / 1e9 * 2048.0;
        assert!((4096.0..=4097.0 + longest_periods).contains(&periods), "{source}: {report}");
        assert_eq!(number(&report["corrected"]["samples"]), periods, "{source}: {report}");
        let figure = |name: &str| number(&report[name]);
        assert!(figure("min_ns") > 0.0 && figure("min_ns") <= figure("median_ns"), "{source}: {report}");
        assert!(figure("median_ns") <= figure("max_ns") && figure("median_ns") < 1e6, "{source}: {report}");
        assert_eq!((&report["source"], &report["priority"]), (&source.into(), &80.into()));
    }
}

#[test]
fn a_real_time_clock_measures_or_is_reported_missing() {
    need_root();
    if Path::new("/dev/rtc0").exists() {
        let report = measure(&["--source", "rtc", "--samples", "2048"]);
        assert_eq!((&report["samples"], report["threads"].as_array().map(Vec::len)), (&2048.into(), Some(1)));
    } else {
        let output = start(&["--source", "rtc", "--samples", "10"]).wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("/dev/rtc0") && said.contains("--source nanosleep"), "{said}");
    }
}

#[test]
fn every_requested_sample_is_taken_at_any_number_of_threads() {
    need_root();
    for cpus in ["0-1", "any"] {
        assert_eq!(measure(&["--samples", "1001", "--cpus", cpus])["samples"], 1001);
    }
}

#[test]
fn a_cpu_taken_for_20_ms_is_a_20_ms_maximum_and_missed_periods() {
    need_root();
    let child = start(&["--json", "--duration", "4", "--cpus", "0"]);
    thread::sleep(Duration::from_secs(2));
    run(Command::new(env!("CARGO_BIN_EXE_usurper")).args(["0", "95", "20"]));
    let output = child.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    // The measured maximum is the time from the first wake-up that was due in the 20 ms to their end. This
    // wake-up was due at most one period after the beginning of the 20 ms.
    let max_ms = number(&report["max_ns"]) / 1e6;
    assert!((19.4..40.0).contains(&max_ms), "{report}");
    assert!(number(&report["missed"]) >= (max_ms / (1000.0 / 2048.0)).floor(), "{report}");
    assert_eq!(report["max_cpu"], 0);
    assert!((0.5..4.0).contains(&number(&report["max_at_s"])), "{report}");
    // In the raw samples the delay is one sample of 8,192; in the corrected samples it is 40 samples.
    let percent = |value: &Value| number(&value["percent_below_ms"]["5"]);
    assert!(percent(&report["corrected"]) < percent(&report) - 0.2, "{report}");
}

#[test]
fn sampling_threads_are_real_time_bound_and_locked_in_memory() {
    need_root();
    let program = Program(start(&["--duration", "60", "--priority", "71"]));
    let proc = Path::new("/proc").join(program.tgid().to_string());
    let threads = await_some("two threads of priority 71", || {
        let tasks = fs::read_dir(proc.join("task")).ok()?.map(|task| task.expect("a thread").path());
        let found: Vec<_> = tasks.filter(|task| is_fifo(task, 71)).collect();
        (found.len() == thread::available_parallelism().expect("a number").get()).then_some(found)
    });
    for task in threads {
        let text = |name: &str| fs::read_to_string(task.join(name)).expect("the thread runs");
        let name = text("comm");
        let cpu = name.trim().strip_prefix("spry-latency/").expect("it is named after its CPU");
        assert!(text("status").contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{name}");
    }
    await_some("locked memory", || {
        let status = fs::read_to_string(proc.join("status")).ok()?;
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
        locked.trim().trim_end_matches(" kB").parse::<u64>().ok().filter(|&kib| kib > 1_000)
    });
}

/// Whether a thread is in the FIFO class with this priority, by fields 40 and 41 of its `stat`.
fn is_fifo(task: &Path, priority: u32) -> bool {
    let stat = fs::read_to_string(task.join("stat")).unwrap_or_default();
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let fields: Vec<_> = fields.split(' ').collect();
    fields.get(37..39) == Some(&[priority.to_string().as_str(), "1"])
}

#[test]
fn a_user_without_permission_is_told_what_to_grant() {
    need_root();
    let mut command = Command::new(spry());
    let refused = as_nobody(command.args(["latency", "--duration", "1"])).output().expect("spry starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("CAP_SYS_NICE") && said.contains("--priority 0"), "{said}");
    let mut command = Command::new(spry());
    let looked = as_nobody(command.args(["latency", "--samples", "500", "--priority", "0", "--json"]));
    let report: Value = serde_json::from_slice(&run(looked).stdout).expect("--json prints JSON");
    assert_eq!(report["samples"], 500);
}

#[test]
fn ctrl_c_prints_the_samples_so_far_and_says_if_it_was_early() {
    need_root();
    for (limit, code) in [(&["--duration", "60"][..], 130), (&[], 0)] {
        let child = start(&[&["--json", "--cpus", "any"], limit].concat());
        thread::sleep(Duration::from_secs(3));
        signal(&child, libc::SIGINT);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code));
        let report: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
        assert_eq!(report["interrupted"], code == 130);
        assert!(number(&report["samples"]) > 500.0, "{report}");
    }
}

#[test]
fn a_kill_costs_at_most_the_samples_since_the_last_checkpoint() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let path = dir.path().join("night.latency.json");
    let file = path.to_str().expect("a plain name");
    let mut child = start(&["--duration", "60", "--checkpoint", file, "--checkpoint-every", "300ms"]);
    let first =
        await_some("a checkpoint", || Results::load(&path).ok().filter(|results| results.raw().count() > 0));
    let seen = Instant::now();
    thread::sleep(Duration::from_secs(3));
    signal(&child, libc::SIGKILL);
    let since_ns = seen.elapsed().as_nanos() as u64;
    child.wait().expect("it ends");
    let last = Results::load(&path).expect("the last checkpoint is whole");
    assert_eq!(last.end, End::Running);
    // The times may differ by one interval, and by the delay of a loaded machine.
    assert!(last.elapsed_ns + 1_300_000_000 > first.elapsed_ns + since_ns, "{} ns", last.elapsed_ns);
    assert!(last.raw().count() > first.raw().count());
}
