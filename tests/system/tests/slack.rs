//! `spry slack` on running processes: all threads of a process get the slack, also of a process that starts
//! threads all the time, or the command says why not.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_sys::slack::Slack;
use spry_system_tests::desk::{Program, as_nobody};
use spry_system_tests::{need_root, of_threads, run, spry};

/// The slack that the relays get, ns.
const SLACK_NS: u64 = 3_000_000;

/// Starts three threads that only sleep. Prints a line when they run.
const SLEEPERS: &str = "import threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(flush=True)
time.sleep(60)";

#[test]
fn a_running_process_s_threads_have_the_slack_and_give_it_back() {
    need_root();
    let mut command = Command::new("python3");
    let mut sleepers = command.args(["-c", SLEEPERS]).stdout(Stdio::piped()).spawn().expect("Python starts");
    let mut output = BufReader::new(sleepers.stdout.take().expect("it is a pipe"));
    assert_eq!(output.read_line(&mut String::new()).expect("a line"), 1, "the threads do not run");
    let tgid = sleepers.id().to_string();
    let slack = |args: &[&str]| -> Vec<(u64, u64)> {
        let output = run(Command::new(spry()).args(["slack", "--json", "--pid", &tgid]).args(args));
        let said: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let threads = said["threads"].as_array().expect("a list").iter();
        let number = |thread: &Value, name: &str| thread[name].as_u64().expect("a number");
        threads.map(|thread| (number(thread, "before_ns"), number(thread, "now_ns"))).collect()
    };
    let before = slack(&[]);
    let set = slack(&["--overshoot", "3ms"]);
    let shown = slack(&[]);
    let given_back = slack(&["--default"]);
    sleepers.kill().and_then(|()| sleepers.wait()).expect("it is a child");
    let usual_ns = before[0].1;
    assert_eq!(before, [(usual_ns, usual_ns); 4]);
    assert_eq!(set, [(usual_ns, 3_000_000); 4]);
    assert_eq!(shown, [(3_000_000, 3_000_000); 4]);
    assert_eq!(given_back, [(3_000_000, usual_ns); 4]);
}

#[test]
fn another_user_s_process_keeps_its_slack() {
    need_root();
    let own = std::process::id().to_string();
    for args in [&["--overshoot", "3ms"][..], &["--default"], &[]] {
        let mut command = Command::new(spry());
        let output =
            as_nobody(command.args(["slack", "--pid", &own]).args(args)).output().expect("spry starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("needs root") && said.lines().count() == 1, "{said}");
    }
}

/// A program in which this number of relays of threads run.
fn relays(count: &str) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relays"));
    let mut program = Program::start(command.arg(count).stdout(Stdio::piped()));
    let mut output = BufReader::new(program.0.stdout.take().expect("it is a pipe"));
    assert!(output.read_line(&mut String::new()).expect("a line") > 1, "the relays do not run");
    program
}

/// Gives the program the slack. Returns the error if the command refuses it, and how long it took.
fn set(program: &Program) -> (Result<(), String>, Duration) {
    let tgid = program.tgid().to_string();
    let began = Instant::now();
    let output = Command::new(spry()).args(["slack", "--overshoot", "3ms", "--pid", &tgid]).output();
    let output = output.expect("spry starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (if output.status.success() { Ok(()) } else { Err(said) }, began.elapsed())
}

/// Gives the program the slack while it is stopped, as the error advises.
fn set_while_stopped(program: &Program, refused: (String, Duration)) {
    let (said, took) = refused;
    let tgid = program.tgid();
    assert!(said.lines().count() == 1 && said.contains(&format!("`kill -STOP {tgid}`")), "{said}");
    assert!(took >= Duration::from_secs(2), "refused after {took:?}");
    program.signal(libc::SIGSTOP);
    let (done, _) = set(program);
    program.signal(libc::SIGCONT);
    assert_eq!(done, Ok(()));
}

/// Fails if a thread that is found within half a second has another slack.
fn all_have_the_slack(program: &Program) {
    let began = Instant::now();
    let mut found = 0;
    while began.elapsed() < Duration::from_millis(500) {
        for (tid, _) in of_threads(program.tgid(), "comm") {
            let opened = Slack::open(tid);
            // The number may belong to another process' thread by now.
            let is_of_it = fs::exists(format!("/proc/{}/task/{tid}", program.tgid())).is_ok_and(|is| is);
            let Ok(ns) = opened.and_then(|slack| slack.ns()) else { continue };
            assert!(ns == SLACK_NS || !is_of_it, "thread {tid} has {ns} ns");
            found += usize::from(is_of_it);
        }
    }
    assert!(found > 0, "no thread was found");
}

#[test]
fn threads_that_start_threads_all_have_the_slack() {
    need_root();
    for count in ["1", "3", "12", "50", "300"] {
        let program = relays(count);
        let (done, took) = set(&program);
        println!("{count} relays: {done:?} after {took:?}");
        // On a busy machine the relays may be too fast.
        if let Err(said) = done {
            set_while_stopped(&program, (said, took));
        }
        all_have_the_slack(&program);
    }
}
