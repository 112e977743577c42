//! An ordinary user keeps the daemon busy, with 1,000 connections or with displays that appear and disappear.
//! This must cost little, root must still get answers, and a display of another user must be found.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use spry_system_tests::desk::{Daemon, Desk, Program, as_nobody, await_some};
use spry_system_tests::{besieger, need_root, of_threads};

/// The CPU time of all threads of a process so far, s.
fn cpu_s(tgid: u32) -> f64 {
    let threads = of_threads(tgid, "schedstat");
    let ran_ns = threads.iter().filter_map(|(_, text)| text.split(' ').next()?.parse::<f64>().ok());
    ran_ns.sum::<f64>() / 1e9
}

fn memory_kib(tgid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{tgid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn still_runs(program: &mut Program) -> bool {
    program.0.try_wait().expect("it can be waited for").is_none()
}

/// Measures the additional CPU time of a besieged daemon over its CPU time alone, and checks that root can
/// still stop it within a second.
fn besieged(what: &str, besiegers: &[&[&str]]) {
    need_root();
    let directory = tempfile::tempdir().expect("scratch space");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let daemon = Daemon::start(directory.path(), &["--observe-only"]);
    let tgid = daemon.program.tgid();
    let cost = |what: &str| {
        let (began, before_s) = (Instant::now(), cpu_s(tgid));
        thread::sleep(Duration::from_secs(4));
        let share = (cpu_s(tgid) - before_s) / began.elapsed().as_secs_f64();
        println!("{what}: {:.2} % of a CPU, {} KiB", share * 100.0, memory_kib(tgid));
        share
    };
    let alone = cost("alone");
    let reports = daemon.socket.with_file_name("report.sock");
    let place = |arg: &&str| match *arg {
        "SOCKET" => daemon.socket.clone().into_os_string(),
        "REPORTS" => reports.clone().into_os_string(),
        arg => arg.into(),
    };
    let start =
        |args: &&[&str]| Program::start(as_nobody(Command::new(besieger()).args(args.iter().map(place))));
    let mut besiegers: Vec<Program> = besiegers.iter().map(start).collect();
    thread::sleep(Duration::from_secs(1));
    let besieged = cost(what);
    assert!(besiegers.iter_mut().all(still_runs), "a besieger has ended");
    assert!(besieged - alone <= 0.01, "{besieged} after {alone}");
    assert!(memory_kib(tgid) <= 64 << 10, "{} KiB", memory_kib(tgid));
    let began = Instant::now();
    daemon.says(&["sched", "stop"]);
    await_some("the end", || {
        (!fs::exists(format!("/proc/{tgid}/task")).expect("/proc") || is_over(tgid)).then_some(())
    });
    let took = began.elapsed();
    println!("stopped after {took:?}");
    assert!(took <= Duration::from_secs(1), "{took:?}");
    drop(besiegers);
}

#[test]
fn a_thousand_connections_cost_a_hundredth_of_a_cpu() {
    besieged("a thousand connections", &[&["SOCKET", "1000"]]);
}

#[test]
fn single_bytes_and_passed_files_cost_a_hundredth_of_a_cpu() {
    besieged("bytes and files", &[&["bytes", "SOCKET"], &["files", "SOCKET", "REPORTS"]]);
}

#[test]
fn displays_that_come_and_go_cost_a_hundredth_of_a_cpu() {
    need_root();
    let directory = tempfile::tempdir().expect("scratch space");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let daemon = Daemon::start(directory.path(), &["--observe-only", "--trust-synthetic"]);
    let tgid = daemon.program.tgid();
    let share = || {
        let (began, before_s) = (Instant::now(), cpu_s(tgid));
        thread::sleep(Duration::from_secs(4));
        (cpu_s(tgid) - before_s) / began.elapsed().as_secs_f64()
    };
    let alone = share();
    let mut makers = Command::new(besieger());
    makers.args(["displays", "7000", "200"]);
    let mut makers = Program::start(as_nobody(&mut makers));
    thread::sleep(Duration::from_secs(1));
    let besieged = share();
    assert!(still_runs(&mut makers), "what makes displays has ended");
    println!("{:.2} % of a CPU, alone {:.2} %", besieged * 100.0, alone * 100.0);
    assert!(besieged - alone <= 0.01, "{besieged} after {alone}");
    let desk = Desk::new();
    await_some("the other display", || {
        let status = daemon.status();
        let mut devices = status["devices"].as_array().expect("a list").iter();
        devices.any(|device| device["name"] == desk.display && device["state"] == "watched").then_some(())
    });
    drop(makers);
    for number in 7_000..7_200 {
        _ = fs::remove_file(format!("/tmp/.X11-unix/X{number}"));
    }
}

/// Whether a process has ended, even if its parent has not waited for it yet.
fn is_over(tgid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{tgid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z'))
}
