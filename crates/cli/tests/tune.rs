//! `spry tune` on the command line, with the one knob that changes nothing: the kernel's own tick.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_sys::{Signal, clock, signal};

fn tune(args: &[&str]) -> Command {
    let mut command = Command::new("env");
    // A shell makes background processes ignore INT and QUIT, and these tests may be such processes.
    command.args(["--default-signal=HUP,INT,QUIT,TERM", env!("CARGO_BIN_EXE_spry"), "tune"]).args(args);
    // There is no daemon here.
    command.env("SPRY_SOCKET", "/nowhere/sched.sock");
    command
}

fn output(args: &[&str]) -> Output {
    tune(args).output().expect("spry starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The kernel's own tick, as an option.
fn own_hz() -> String {
    let tick_ns = clock::tick_ns();
    ((1_000_000_000 + tick_ns / 2) / tick_ns).to_string()
}

/// Fails unless this is refused in one line with these words, and the command does not run.
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let mark = dir.path().join("mark");
    let mark = mark.to_str().expect("a plain name");
    let output = output(&[args, &["--", "touch", mark]].concat());
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.lines().count() == 1 && output.stdout.is_empty(), "{args:?}: {said}");
    assert!(words.iter().all(|words| said.contains(words)), "{args:?}: {said}");
    assert!(!Path::new(mark).exists(), "{args:?}: the command ran");
}

#[test]
fn a_knob_that_cannot_be_is_one_line_and_no_command_runs() {
    for quantum in ["0", "49", "100001", "-3", "3ms", ""] {
        refused(&["--quantum-us", quantum], 2, &["50 to 100000", "microseconds"]);
        refused(&["--all", "--quantum-us", quantum], 2, &["50 to 100000"]);
    }
    for tick in ["0", "99", "50000", "1kHz"] {
        refused(&["--tick-hz", tick], 2, &["100 to 20000", "Hz"]);
    }
    refused(&["--class", "rr", "--all", "--quantum-us", "1000"], 2, &["leave --all out"]);
}

#[test]
fn a_class_without_a_quantum_is_refused_with_the_reason() {
    for (class, reason) in [
        ("reserved", "its reservation's budget"),
        ("daemon", "within a budget"),
        ("kthread", "within a budget"),
        ("interactive", "leave the command out"),
        ("idle", "leave the command out"),
    ] {
        refused(&["--class", class, "--quantum-us", "500"], 2, &[reason, class]);
    }
    for class in ["reserved", "daemon", "kthread"] {
        let output = output(&["--class", class, "--quantum-us", "500"]);
        assert_eq!((output.status.code(), said(&output).lines().count()), (Some(2), 1), "{}", said(&output));
    }
    let output = output(&["--class", "fifo", "--quantum-us", "500"]);
    assert!(said(&output).contains("[possible values: fair, rr, interactive, idle]"), "{}", said(&output));
}

#[test]
fn a_knob_of_the_daemon_s_needs_the_daemon() {
    for args in [&[][..], &["--json"], &["--class", "idle", "--quantum-us", "500"], &["--default"]] {
        let output = output(args);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.lines().count() == 1 && said.contains("spry sched run"), "{args:?}: {said}");
    }
}

#[test]
fn a_tick_that_is_not_the_kernel_s_is_refused_with_a_way_out() {
    let own = own_hz();
    let other = if own == "2000" { "4000" } else { "2000" };
    let instead = if own == "2000" { "--quantum-us 250" } else { "--quantum-us 500" };
    let words = [&*format!("ticks {own} times"), instead, "spry lab kernel build --hz"];
    refused(&["--tick-hz", other], 125, &words);
}

#[test]
fn a_command_ends_as_it_does_without_knobs() {
    let hz = own_hz();
    let ran = output(&["--tick-hz", &hz, "--", "sh", "-c", "echo out; exit 7"]);
    assert_eq!((ran.status.code(), &ran.stdout[..]), (Some(7), &b"out\n"[..]));
    assert_eq!(said(&ran), format!("spry: tick of the machine: {hz} Hz → {hz} Hz, as it was\n"));
    let killed = output(&["--tick-hz", &hz, "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(killed.status.code(), Some(137));
}

#[test]
fn a_command_that_cannot_start_exits_as_a_shell_says() {
    let hz = own_hz();
    for (program, code) in [("/nowhere/program", 127), ("/proc/version", 126)] {
        let output = output(&["--tick-hz", &hz, "--", program]);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(&format!("cannot start {program}")), "{}", said(&output));
    }
}

#[test]
fn json_says_what_was_set_and_what_was_given_back() {
    let hz = own_hz();
    let output = output(&["--json", "--tick-hz", &hz, "--", "true"]);
    let said = said(&output);
    let lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}"))).collect();
    let [set, back] = &lines[..] else { panic!("{said}") };
    assert_eq!(set["knobs"][0]["name"], "tick");
    assert_eq!(set["knobs"][0]["scope"], "machine");
    assert_eq!(set["knobs"][0]["now"]["hz"].to_string(), hz);
    assert_eq!(back["given_back"].as_array().map(Vec::len), Some(0));
    assert!(output.stdout.is_empty());
}

#[test]
fn signals_that_a_process_sends_come_to_the_command() {
    let hz = own_hz();
    for (number, name, sent) in [
        (15, "TERM", Signal::TERM),
        (1, "HUP", Signal::HUP),
        (2, "INT", Signal::INT),
        (3, "QUIT", Signal::QUIT),
    ] {
        let script = format!("trap 'exit 40' {name}; echo ready; while :; do sleep 0.01; done");
        let mut child = tune(&["--tick-hz", &hz, "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("spry starts");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        output.read_line(&mut line).expect("the command is ready");
        signal::send(child.id(), sent).expect("spry runs");
        let began = Instant::now();
        let status = child.wait().expect("it is ours");
        assert_eq!(status.code(), Some(40), "{number}");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn a_process_that_a_command_leaves_does_not_keep_spry() {
    let hz = own_hz();
    let began = Instant::now();
    let ran = tune(&["--tick-hz", &hz, "--", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"])
        .output()
        .expect("spry starts");
    let daemon: u32 = String::from_utf8_lossy(&ran.stdout).trim().parse().expect("a number");
    signal::send(daemon, Signal::KILL).expect("it runs on");
    assert!(ran.status.success() && began.elapsed() < Duration::from_secs(50));
}

#[test]
fn help_has_examples_and_limits_and_says_what_there_is_not() {
    let output = output(&["--help"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = ["Examples:", "--quantum-us 3000 -- make", "50 to 100000", "100 to 20000 Hz", "--restore"];
    assert!(output.status.success() && words.iter().all(|words| text.contains(words)), "{text}");
    assert!(text.contains("with a command --tick-hz takes the kernel's own rate alone"), "{text}");
}
