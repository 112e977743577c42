//! A report of a real recording is the same on any number of threads.

use std::ffi::OsStr;
use std::process::Command;

use spry_system_tests::{Recording, need_root, run, spry_says};

#[test]
fn a_report_is_the_same_on_any_number_of_threads() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("all.spry");
    let recording = Recording::start(&trace, "sched,timer,irq,resched,ipc,mark");
    run(Command::new("hackbench").args(["-g", "4", "-l", "200"]));
    spry_says(["mark", "half way"]);
    run(Command::new("perf").args(["bench", "sched", "pipe", "-l", "20000"]));
    recording.stop();
    for window in [&[][..], &["--from", "100ms"], &["--to", "300ms"]] {
        let on = |threads: &'static str| {
            let args = ["report", "--json", "--threads", threads].into_iter().chain(window.iter().copied());
            spry_says(args.map(OsStr::new).chain([trace.as_os_str()]))
        };
        let alone = on("1");
        assert!(alone.len() > 10_000, "{alone}");
        for threads in ["2", "3", "4", "5", "64"] {
            assert!(on(threads) == alone, "{threads} threads, {window:?}");
        }
    }
}
