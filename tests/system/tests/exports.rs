//! Exports of a real recording can be opened in the programs for which they are made.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use spry_system_tests::{Recording, need_root, report, run, spry, spry_says};

#[test]
fn exports_of_a_recording_open_in_pandas_polars_and_perfetto() {
    need_root();
    let python = env::var_os("SPRY_PYTHON")
        .expect("SPRY_PYTHON names a Python with pandas, polars, pyarrow and perfetto");
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("all.spry");
    let recording = Recording::start(&trace, "sched,timer,irq,resched,ipc,mark,idle");
    run(Command::new("hackbench").args(["-g", "1", "-l", "50"]));
    spry_says(["mark", "half way"]);
    run(Command::new("sleep").arg("0.3"));
    recording.stop();

    let mut open = Command::new(python);
    open.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/see/report/tests/open_exports.py"));
    for format in ["csv", "parquet", "perfetto"] {
        let out = dir.path().join(format!("all.{format}"));
        let args = ["export".as_ref(), trace.as_os_str(), "--to".as_ref(), format.as_ref(), "-o".as_ref()];
        spry_says(args.into_iter().chain([out.as_os_str()]));
        open.arg(out);
    }
    run(&mut open);
}

#[test]
fn a_reader_that_leaves_is_no_error_and_other_errors_are_a_line() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("few.spry");
    let recording = Recording::start(&trace, "sched");
    run(Command::new("hackbench").args(["-g", "1", "-l", "50"]));
    let summary = recording.stop();
    for format in ["csv", "parquet", "perfetto"] {
        let export = |to: Stdio| {
            let mut command = Command::new(spry());
            command.arg("export").arg(&trace).args(["--to", format, "-o", "-"]);
            command.stdout(to).stderr(Stdio::piped()).spawn().expect("spry starts")
        };
        let mut child = export(Stdio::piped());
        let mut some = [0; 100];
        child.stdout.take().expect("it is piped").read_exact(&mut some).expect("some bytes come");
        let done = child.wait_with_output().expect("spry ends");
        assert_eq!(String::from_utf8_lossy(&done.stderr), "", "{format}");
        assert!(done.status.success(), "{format}: {}", done.status);

        let full = File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
        let done = export(full.into()).wait_with_output().expect("spry ends");
        assert_eq!(done.status.code(), Some(1), "{format}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("No space left on device"), "{said}");
    }
    let beyond =
        Command::new(spry()).arg("report").arg(&trace).args(["--from", "1h"]).output().expect("spry starts");
    assert_eq!(
        (beyond.status.code(), beyond.stdout.len()),
        (Some(1), 0),
        "a window after the end of the trace"
    );
    assert_eq!(report(&trace)["trace"]["events"], summary["events"], "recorder and report count the same");
}
