//! Exports of a real recording open in the programs they are for.

use std::env;
use std::path::Path;
use std::process::Command;

use spry_system_tests::{Recording, need_root, run, spry_says};

#[test]
fn exports_of_a_real_recording_open_in_pandas_polars_and_perfettos_schema() {
    need_root();
    let python = env::var_os("SPRY_PYTHON")
        .expect("SPRY_PYTHON names a Python with pandas, polars, pyarrow and perfetto");
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("all.spry");
    let recording = Recording::start(&trace, "sched,timer,irq,resched,ipc,mark");
    run(Command::new("hackbench").args(["-g", "1", "-l", "50"]));
    spry_says(["mark", "half way"]);
    run(Command::new("sleep").arg("0.3"));
    recording.stop();

    let mut open = Command::new(python);
    open.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/report/tests/open_exports.py"));
    for format in ["csv", "parquet", "perfetto"] {
        let out = dir.path().join(format!("all.{format}"));
        let args = ["export".as_ref(), trace.as_os_str(), "--to".as_ref(), format.as_ref(), "-o".as_ref()];
        spry_says(args.into_iter().chain([out.as_os_str()]));
        open.arg(out);
    }
    run(&mut open);
}
