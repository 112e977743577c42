//! `spry slack` on the command line: a command and what it starts have the slack, and the rest is refused.

use std::process::{Command, Output};

use serde_json::Value;

/// The slack of a shell, and of a process that it starts.
const BOTH: &str = "read -r own </proc/$$/timerslack_ns; echo $own; cat /proc/self/timerslack_ns";

fn slack(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spry")).arg("slack").args(args).output().expect("spry starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_command_and_its_children_have_the_slack() {
    for (overshoot, ns) in [("5ms", "5000000"), ("100us", "100000"), ("0", "1"), ("10s", "10000000000")] {
        let output = slack(&["--overshoot", overshoot, "--", "sh", "-c", BOTH]);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(text(&output.stdout), format!("{ns}\n{ns}\n"), "{overshoot}");
        assert!(said.contains("timer slack of the command: ") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn slack_that_was_set_is_a_line_of_json() {
    let output = slack(&["--overshoot", "70us", "--json", "--", "true"]);
    let said: Value = serde_json::from_slice(&output.stderr).expect("it is JSON");
    assert_eq!((&said["asked_ns"], &said["now_ns"]), (&70_000.into(), &70_000.into()));
    assert!(said["before_ns"].as_u64().is_some_and(|ns| ns > 0), "{said}");
}

#[test]
fn exit_codes_are_the_command_s_or_say_why_it_did_not_run() {
    let code = |args: &[&str]| slack(args).status.code();
    assert_eq!(code(&["--overshoot", "1ms", "--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code(&["--overshoot", "1ms", "--", "/nowhere/at-all"]), Some(127));
    assert_eq!(code(&["--overshoot", "1ms", "--", "/"]), Some(126));
    for wrong in ["11s", "-1ms", "soon", ""] {
        let output = slack(&["--overshoot", wrong, "--", "echo", "it ran"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {said}");
        assert!(said.lines().count() == 1 && output.stdout.is_empty(), "{wrong}: {said}");
    }
}

#[test]
fn a_process_that_is_not_there_is_refused_in_one_line() {
    let output = slack(&["--pid", "2147483646"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said, "spry: there is no process 2147483646\n");
}
