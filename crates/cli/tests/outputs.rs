//! Tests how Spry ends if its output is closed, or if the daemon is lost.

use std::process::{Command, Output, Stdio};

use spry_test_run::answer_once;

fn spry() -> Command {
    Command::new(env!("CARGO_BIN_EXE_spry"))
}

/// Runs Spry with a standard output that no reader reads.
fn unread(args: &[&str]) -> Output {
    let (reader, writer) = spry_sys::pipe().unwrap();
    drop(reader);
    spry().args(args).stdout(writer).stderr(Stdio::piped()).output().unwrap()
}

#[test]
fn an_output_that_no_reader_reads_is_no_error() {
    for args in [&["completions", "bash"][..], &["completions", "zsh"], &["analyses"]] {
        let output = unread(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{args:?}: {:?} {said}", output.status);
    }
}

/// A daemon's answer to the question for its reservations.
const NONE: &str = r#"{"reservations":{"scope":"own","enforcer":"scx","reservations":[]}}"#;

#[test]
fn a_daemon_that_is_lost_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("sched.sock");
    let daemon = answer_once(&socket, NONE);
    let output = spry().args(["reservations", "--watch", "--socket"]).arg(&socket).output().unwrap();
    daemon.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the connection to the scheduler daemon broke"), "{said}");
}
