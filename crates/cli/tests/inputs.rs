//! Tests that Spry reads its inputs from pipes, too, and that an error names the kind of a foreign file.

mod command;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use command::fed;
use spry_trace::event::{Comm, Event, PrevState, Stamped, Switch, TaskInfo};
use spry_trace::{Group, Groups, Header, Options, Tgid, Tid, Writer};

fn spry() -> Command {
    Command::new(env!("CARGO_BIN_EXE_spry"))
}

fn text(output: &Output) -> String {
    let out = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&out).into_owned()
}

/// A trace of two tasks that take turns.
fn trace(path: &Path) {
    write_trace(path, None);
}

/// A trace of two tasks, the first of which has this name.
fn named_trace(path: &Path, name: &str) {
    write_trace(path, Some(TaskInfo::new(Tid(7), Tgid(7), Comm::new(name.as_bytes()))));
}

fn write_trace(path: &Path, first: Option<TaskInfo>) {
    let header = Header {
        cpus: 1,
        start_ns: 1_000,
        groups: Groups::NONE.with(Group::Sched),
        machine: "sim".into(),
        ..Header::default()
    };
    let mut writer = Writer::new(File::create(path).unwrap(), &header, Options::default()).unwrap();
    if let Some(info) = first {
        writer.event(&Stamped { time_ns: 1_000, cpu: 0, event: Event::Task(info) }).unwrap();
    }
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
    drop(writer.finish(1_000 + 100_000_000).unwrap());
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
    let of_file = spry().args(["export", "--to", "csv", "-o", "-"]).arg(&path).output().unwrap();
    assert!(exported.stdout.len() > 1_000 && exported.stdout == of_file.stdout, "{}", text(&exported));
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

#[test]
fn a_trace_for_compare_and_foreign_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    trace(&path("a.spry"));
    fs::write(path("perf.data"), b"PERFILE2 and more").unwrap();
    fs::write(path("trace.txt"), "# tracer: wakeup_rt\n#\n").unwrap();
    fs::write(path("trace.gz"), b"\x1f\x8b\x08").unwrap();
    for (command, file, said) in [
        ("compare", "a.spry", "is a trace, and compare takes results"),
        ("compare", "perf.data", "is a trace, and compare takes results"),
        ("report", "trace.txt", "is text of ftrace"),
        ("report", "trace.gz", "is compressed with gzip"),
    ] {
        let twice = [path(file), path(file)];
        let files = if command == "compare" { &twice[..] } else { &twice[..1] };
        let output = spry().arg(command).args(files).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{file}: {}", text(&output));
        assert!(text(&output).contains(said), "{file}: {}", text(&output));
    }
}

#[test]
fn a_report_as_json_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.spry");
    trace(&path);
    let output = spry().args(["report", "--json"]).arg(&path).output().unwrap();
    assert!(output.stdout.ends_with(b"}\n"), "{}", text(&output));
    assert_eq!(output.stdout.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

#[test]
fn a_process_that_is_not_in_a_trace_is_said_to_be_absent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.spry");
    trace(&path);
    let explain = |args: &[&str]| {
        let mut spry = spry();
        spry.arg("explain").args(args).arg("--socket").arg(dir.path().join("none")).arg("--trace");
        let output = spry.arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = explain(&["4711"]);
    assert!(said.contains("The trace has no event of this process.") && !said.contains("waited"), "{said}");
    let notes = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["trace_notes"].clone();
    let absent = serde_json::json!(["The trace has no event of this process."]);
    assert_eq!(notes(&explain(&["4711", "--json"])), absent);
    assert_eq!(notes(&explain(&["7", "--json"])), serde_json::json!([]));
    assert!(!explain(&["7"]).contains("no event of this process"));
}

#[test]
fn a_name_that_is_a_number_is_found_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.spry");
    trace(&path);
    let of = |pattern: &str| spry().args(["report", "--task", pattern]).arg(&path).output().unwrap();
    assert!(text(&of("7")).contains("task 7"));
    let none = text(&of("123"));
    assert!(none.contains("no task has the number 123; a task of that name is `--task name:123`"), "{none}");
    assert!(!text(&of("name:123")).contains("no task has the number"));
}

#[test]
fn a_task_is_found_by_its_name_whatever_the_name_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.spry");
    // The thread with the number 7 has the other's number as its name.
    for (name, pattern) in [("8", "name:8"), ("name:8", "name:name:8"), ("08", "name:08")] {
        named_trace(&path, name);
        let output = spry().args(["report", "--json", "--task", pattern]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{pattern}: {}", text(&output));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let tids: Vec<_> = report["tasks"].as_array().unwrap().iter().map(|task| &task["tid"]).collect();
        assert_eq!(tids, [7], "{pattern}");
    }
}

#[test]
fn the_limit_of_a_files_size_is_an_error_with_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.spry");
    trace(&path);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"ulimit -f 2; exec "$0" export "$1" --to csv -o "$2""#])
        .arg(env!("CARGO_BIN_EXE_spry"));
    let output = shell.arg(&path).arg(dir.path().join("out.csv")).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output).contains("`ulimit -f`"), "{}", text(&output));
}
