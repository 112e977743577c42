//! What Spry reads may come through a pipe, and what it cannot read is named for what it is.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use spry_trace::event::{Event, PrevState, Stamped, Switch, Tid};
use spry_trace::{Group, Groups, Header, Options, Writer};

fn spry() -> Command {
    Command::new(env!("CARGO_BIN_EXE_spry"))
}

/// Runs Spry with these bytes in a pipe as its standard input.
fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = spry()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spry starts");
    let mut pipe = child.stdin.take().expect("it is a pipe");
    let input = input.to_owned();
    // Spry may end before it has read everything.
    let writing = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output().expect("spry ends");
    writing.join().expect("the pipe was written");
    output
}

fn text(output: &Output) -> String {
    let out = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&out).into_owned()
}

/// A trace of two tasks that take turns.
fn trace(path: &Path) {
    let header = Header {
        cpus: 1,
        start_ns: 1_000,
        groups: Groups::NONE.with(Group::Sched),
        machine: "sim".into(),
        ..Header::default()
    };
    let mut writer = Writer::new(File::create(path).unwrap(), &header, Options::default()).unwrap();
    for turn in 0..100u64 {
        let (prev, next) = if turn % 2 == 0 { (7, 8) } else { (8, 7) };
        let (prev_prio, next_prio, stolen_ns) = (120, 120, 0);
        let switch = Switch {
            prev: Tid(prev),
            next: Tid(next),
            prev_state: PrevState::Preempted,
            prev_prio,
            next_prio,
            stolen_ns,
        };
        writer
            .event(&Stamped { time_ns: 1_000 + turn * 1_000_000, cpu: 0, event: Event::Switch(switch) })
            .unwrap();
    }
    writer.finish(1_000 + 100_000_000).unwrap();
}

#[test]
fn a_dash_is_standard_input_wherever_a_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.spry");
    trace(&path);
    let bytes = fs::read(&path).unwrap();
    let of_file = spry().args(["report", "--json"]).arg(&path).output().unwrap();
    let of_pipe = fed(&["report", "--json", "-"], &bytes);
    assert!(of_pipe.status.success(), "{}", text(&of_pipe));
    assert_eq!(text(&of_pipe), text(&of_file));
    let redirected =
        spry().args(["report", "--json", "-"]).stdin(File::open(&path).unwrap()).output().unwrap();
    assert_eq!(text(&redirected), text(&of_file));
    let exported = fed(&["export", "-", "--to", "csv", "-o", "-"], &bytes);
    assert_eq!(text(&exported).lines().count(), 101, "{}", text(&exported));
    let scenario = r#"{ "tasks": { "café": { "run": 200, "sleep": 500 } }, "global": { "duration": 1 } }"#;
    let checked = fed(&["scenario", "check", "-"], scenario.as_bytes());
    assert!(checked.status.success(), "{}", text(&checked));
}

#[test]
fn a_named_pipe_is_a_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let (path, pipe) = (dir.path().join("trace.spry"), dir.path().join("pipe"));
    trace(&path);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (from, to) = (path.clone(), pipe.clone());
    let writing = std::thread::spawn(move || fs::copy(from, to));
    let output = spry().args(["report", "--from", "10ms", "--json"]).arg(&pipe).output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["trace"]["from_ns"], 10_000_000);
}

#[test]
fn senseless_standard_input_is_named_and_ends_with_1() {
    let cases: [(&[&str], &[u8], &str); 3] = [
        (&["report", "-"], b"", "standard input: not a trace"),
        (&["report", "-"], b"PERFILE2\x10\0\0\0\0\0\0\0", "does not say what its tracepoints look like"),
        (&["compare", "-", "/dev/null"], b"{}", "standard input"),
    ];
    for (args, input, said) in cases {
        let output = fed(args, input);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
}
