//! Tests how Spry ends if its output is closed, or if the daemon is lost.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};

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
    let listener = UnixListener::bind(&socket).unwrap();
    // The daemon answers one question and ends, so the next question finds no reader.
    let daemon = std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        stream.read_line(&mut String::new()).unwrap();
        stream.get_mut().write_all(format!("{NONE}\n").as_bytes()).unwrap();
    });
    let output = spry().args(["reservations", "--watch", "--socket"]).arg(&socket).output().unwrap();
    daemon.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the connection to the scheduler daemon broke"), "{said}");
}
