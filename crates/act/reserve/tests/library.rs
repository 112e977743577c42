//! Tests the library and its C header against a daemon of the test's own, which answers as Spry's does.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use spry_test_run::c;

/// The daemon's answers to a program that opens, changes and releases a reservation.
const OPENED: &str = r#"{"opened":{"slot":7,"cpu":1,"budget_ns":1,"period_ns":2,"on_exhaustion":"wait","enforcer":"scx","notes":[]}}"#;
const DONE: &str = r#"{"done":{"text":"released"}}"#;
const REFUSED: &str = r#"{"error":{"kind":"malformed","text":"a budget is more than 0 and at most the period, not 20ms of 10ms"}}"#;

/// The daemon's list of reservations; the reservation in slot 7 is for the threads `covers`.
fn listed(covers: &str) -> String {
    format!(
        r#"{{"reservations":{{"scope":"own","enforcer":"scx","reservations":[{{"slot":6,"cpu":0,"covers":{{"thread":{{"tid":1}}}},"periods":1,"got_ns":1,"asked_ns":1,"deviation_ns":0}},{{"slot":7,"cpu":1,"covers":{covers},"tgid":9,"comm":"x","uid":0,"periods":99,"got_ns":5,"asked_ns":7,"deviation_ns":-2,"stolen_ns":null,"exhausted":null,"worst_short_ns":null,"worst_late_ns":3}}]}}}}"#
    )
}

/// Answers questions at a socket; sends each question to the test.
fn daemon(directory: &Path) -> (PathBuf, Receiver<String>) {
    let socket = directory.join("sched.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut covers = String::new();
        for stream in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let mut stream = BufReader::new(stream);
            stream.read_line(&mut line).expect("a question");
            let asks = |what: &str| line.contains(&format!("\"ask\":\"{what}\""));
            let answer = if asks("reservations") {
                listed(&covers)
            } else if asks("release") {
                DONE.to_owned()
            } else if line.contains("\"budget_ns\":20000000") {
                REFUSED.to_owned()
            } else {
                let start = line.find("\"covers\":").expect("covers") + "\"covers\":".len();
                covers = line[start..=line[start..].find("}}").expect("its end") + start + 1].to_owned();
                OPENED.to_owned()
            };
            stream.get_mut().write_all(format!("{answer}\n").as_bytes()).expect("an answer");
            _ = sender.send(line.trim().to_owned());
        }
    });
    (socket, receiver)
}

/// Compiles the example in C and links it with a library.
fn compiled(directory: &Path, library: &Path) -> PathBuf {
    c::compiled(
        Path::new(env!("CARGO_MANIFEST_DIR")),
        "on_time",
        &["-D_POSIX_C_SOURCE=200809L"],
        directory,
        library,
    )
}

fn run(program: &Path, socket: &Path, library: &Path) -> (bool, String, String) {
    let mut command = Command::new(program);
    command.env("SPRY_SOCKET", socket).env("LD_LIBRARY_PATH", library.parent().expect("a directory"));
    let ended = command.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ended.status.success(), text(&ended.stdout), text(&ended.stderr))
}

#[test]
fn a_c_program_opens_asks_sets_and_releases_with_either_library() {
    for ending in [".a", ".so"] {
        let directory = tempfile::tempdir().expect("a directory");
        let (socket, asked) = daemon(directory.path());
        let library = c::library("libspry_reserve", ending);
        let program = compiled(directory.path(), &library);
        let (is_well, out, err) = run(&program, &socket, &library);
        assert!(is_well, "{out}{err}");
        assert_eq!(
            out,
            "slot 7 on CPU 1: 99 periods\n\
             refused: a budget is more than 0 and at most the period, not 20ms of 10ms\n"
        );
        let questions: Vec<String> = (0..4).map(|_| asked.recv().expect("a question")).collect();
        assert!(questions[0].contains(r#""budget_ns":2000000"#), "{questions:?}");
        assert!(questions[0].contains(r#""on_exhaustion":"wait""#), "{questions:?}");
        assert!(questions[3].contains(r#""ask":"release""#), "{questions:?}");
    }
}

#[test]
fn a_c_program_without_a_daemon_is_told_what_to_do() {
    let directory = tempfile::tempdir().expect("a directory");
    let library = c::library("libspry_reserve", ".a");
    let program = compiled(directory.path(), &library);
    let (is_well, _, err) = run(&program, &directory.path().join("none"), &library);
    assert!(!is_well && err.contains("no scheduler daemon is running"), "{err}");
    assert!(err.contains("spry sched run"), "{err}");
}
