//! `spry bench` on this kernel, as root and apart from all other tests: the properties that hold
//! on any machine.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use spry_system_tests::desk::{as_nobody, await_some};
use spry_system_tests::{need_root, number, run, spry};

fn bench(args: &[&str]) -> Value {
    let mut command = Command::new(spry());
    command.args(["bench", "--quiet", "--json", "--priority", "1"]).args(args);
    serde_json::from_slice(&run(&mut command).stdout).expect("--json prints JSON")
}

#[test]
fn traps_are_cheaper_than_switches_and_caches_have_bandwidths() {
    need_root();
    let report = bench(&["--only", "switch,trap,cache", "--duration", "2"]);
    let median = |name: &str| number(&report[name]["median_ns"]);
    assert!(median("trap") > 5.0 && median("trap") * 2.0 < median("switch"), "{report}");
    assert!(median("switch") < 1e6, "{report}");
    let bandwidths: Vec<f64> = report["cache"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|cache| number(&cache["median_mb_s"]))
        .collect();
    assert!(bandwidths.len() == 2 && bandwidths.iter().all(|&mb_s| mb_s > 100.0), "{report}");
    assert!(report["interrupt"].is_null() && report["sort"].is_null(), "they were not asked for");
    assert_eq!(report["lacks"], Value::Array(Vec::new()));
    assert_eq!(report["papers"]["processor"].as_array().map(Vec::len), Some(7));
}

#[test]
fn the_tick_is_found_and_costs_less_than_its_period() {
    need_root();
    let report = bench(&["--only", "interrupt", "--duration", "3"]);
    let tick = &report["interrupt"];
    let (median_ns, hz) = (number(&tick["median_ns"]), number(&tick["tick_hz"]));
    assert!((100.0..1e9 / hz / 2.0).contains(&median_ns), "{report}");
    // Nearly all ticks of the 3 s are seen on a quiet machine; on a busy machine at least a tenth of them.
    assert!(number(&tick["samples"]) > 3.0 * hz / 10.0, "{report}");
}

/// The number of local timer interrupts on all CPUs together.
fn timer_interrupts() -> u64 {
    let text = fs::read_to_string("/proc/interrupts").expect("the kernel counts them");
    let line =
        text.lines().find_map(|line| line.trim_start().strip_prefix("LOC:")).expect("this machine has them");
    line.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum()
}

#[test]
fn sorting_takes_longer_with_more_interrupts() {
    need_root();
    let before = timer_interrupts();
    let report = bench(&["--only", "sort", "--duration", "8"]);
    let came = timer_interrupts() - before;
    let rates = report["sort"]["rates"].as_array().expect("a list");
    let at = |hz: u64| rates.iter().find(|rate| rate["rate_hz"] == hz).expect("the rate was measured");
    let added = |hz: u64| number(&at(hz)["added_ns"]);
    assert!(
        added(20_000) > added(5_000) && added(20_000) > number(&at(20_000)["added_margin_ns"]),
        "{report}"
    );
    assert!(number(&at(20_000)["mean_ns"]) > number(&at(0)["mean_ns"]), "{report}");
    // The number of interrupts in the iterations that count, according to the report.
    let reckoned: f64 =
        rates[1..].iter().map(|rate| number(&rate["interrupts"]) * number(&rate["samples"])).sum();
    assert!(reckoned > 1_000.0 && came as f64 > reckoned, "{came} of {reckoned}: {report}");
}

/// The child process of another process.
fn child_of(parent: u32) -> Option<u32> {
    fs::read_dir("/proc").ok()?.find_map(|entry| {
        let tgid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{tgid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        (fields.split(' ').nth(1)? == parent.to_string()).then_some(tgid)
    })
}

#[test]
fn ctrl_c_prints_what_there_is_and_leaves_no_process() {
    need_root();
    let mut command = Command::new(spry());
    command.args(["bench", "--quiet", "--json", "--only", "switch,sort", "--duration", "60"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("spry starts");
    let partner = await_some("the second process", || child_of(child.id()));
    thread::sleep(Duration::from_secs(2));
    // The child was not waited for, so the process id is still its own.
    spry_sys::signal::send_number(child.id(), libc::SIGINT).expect("it is still there");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    assert_eq!(report["interrupted"], true);
    assert!(number(&report["switch"]["samples"]) > 0.0 && report["sort"].is_null(), "{report}");
    assert_eq!(report["lacks"][0]["name"], "sort");
    assert!(!fs::exists(format!("/proc/{partner}")).expect("/proc is there"), "{partner} is still there");
}

#[test]
fn a_user_without_privileges_measures_without_a_priority() {
    need_root();
    let mut command = Command::new(spry());
    let own = as_nobody(command.args(["bench", "--only", "trap", "--duration", "1", "--json"]));
    let report: Value = serde_json::from_slice(&run(own).stdout).expect("--json prints JSON");
    assert!(number(&report["trap"]["mean_ns"]) > 5.0, "{report}");
    let mut command = Command::new(spry());
    let refused = as_nobody(command.args(["bench", "--only", "trap", "--priority", "1"])).output();
    let refused = refused.expect("spry starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("CAP_SYS_NICE"), "{said}");
}
