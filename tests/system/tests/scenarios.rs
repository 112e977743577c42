//! Scenarios that the real `spry` and its runner run on this machine.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_system_tests::{need_root, run, spry, spry_says};

/// A scenario of a film for a second, beside endless loops.
const SCENARIO: &str = r#"# A short film.
name = "short"
warmup_s = 0.3
duration_s = 1
[variables]
stressers = { default = 0, min = 0 }
[[task]]
name = "player"
kind = "player"
[[task]]
name = "stresser"
kind = "stresser"
count = "$stressers"
"#;

/// The command `spry run` on the scenario in a directory of its own, which has its temporary files, too.
fn spry_run(home: &Path, scenario: &str, args: &[&str]) -> Command {
    let file = home.join("short.toml");
    fs::write(&file, scenario).unwrap();
    let tmp = home.join("tmp");
    fs::create_dir_all(&tmp).unwrap();
    let mut command = Command::new(spry());
    command.arg("run").arg(file).args(["--on", "host"]).args(args).current_dir(home).env("TMPDIR", tmp);
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails if a process still has this directory in its command line, or a temporary file is left in it.
fn assert_nothing_is_left(home: &Path) {
    let left: Vec<_> = fs::read_dir(home.join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!is_named_by_a_process(home), "a process is left behind");
}

/// Whether a process has this path in its command line.
fn is_named_by_a_process(path: &Path) -> bool {
    let name = path.to_str().unwrap().as_bytes();
    let lines =
        fs::read_dir("/proc").unwrap().map(|process| fs::read(process.unwrap().path().join("cmdline")));
    lines.flatten().any(|line| line.windows(name.len()).any(|part| part == name))
}

#[test]
fn a_run_prints_its_cells_in_order_and_keeps_them() {
    let home = tempfile::tempdir().unwrap();
    let args =
        ["--scheduler", "eevdf", "--scheduler", "rr", "--vary", "stressers=0,2", "--json", "-o", "kept"];
    let output = run(&mut spry_run(home.path(), SCENARIO, &args));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["scenario"], &json["machine"]), (&"short".into(), &"host".into()));
    assert_eq!(json["inputs"]["record"], false);
    let cells = json["cells"].as_array().unwrap();
    let names = cells
        .iter()
        .map(|cell| (cell["scheduler"].as_str().unwrap(), cell["vary"]["stressers"].as_u64().unwrap()));
    assert_eq!(names.collect::<Vec<_>>(), [("eevdf", 0), ("eevdf", 2), ("rr", 0), ("rr", 2)]);
    for cell in cells {
        // The number of frames in the second depends on its start and end between frames.
        assert!((24..=26).contains(&cell["metrics"]["frames_due"].as_u64().unwrap()), "{cell}");
        assert!(cell["metrics"]["wake_lateness_ns"]["p99"].is_u64(), "{cell}");
    }
    let kept = fs::read_to_string(home.path().join("kept/results.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), json);
    assert_eq!(fs::read_dir(home.path().join("kept/cells")).unwrap().count(), 4);
    assert_nothing_is_left(home.path());
}

/// Files in the format of rt-app that only root may run: they use real-time classes and groups.
#[test]
fn rt_app_files_with_classes_and_groups_run_as_they_are() {
    need_root();
    let home = tempfile::tempdir().unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/prove/runner/tests/rt-app");
    let expected: [(&str, &[&str]); 2] =
        [("classes.json", &["changing", "idle", "turns", "due"]), ("groups.json", &["moving", "grouped"])];
    for (name, tasks) in expected {
        let mut command = Command::new(spry());
        command.arg("run").arg(files.join(name)).args(["--on", "host", "--json", "-o", name]);
        let output = run(command.current_dir(home.path()));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        for task in tasks {
            assert_eq!(json["cells"][0]["metrics"][format!("{task}.passes")], 5, "{name}, {task}: {json}");
        }
    }
}

#[test]
fn ctrl_c_shows_what_there_is_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let mut command = spry_run(home.path(), SCENARIO, &["--seeds", "20"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_secs(6));
    // A child that was not waited for keeps its process id.
    spry_sys::signal::send_number(child.id(), libc::SIGINT).expect("it is still there");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("frames shown"), "{}", errors(&output));
    let others =
        fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut others: Vec<_> = others.collect();
    others.sort();
    // The directory of results was made, and is empty again.
    assert_eq!(others, ["results", "short.toml", "tmp"]);
    assert_eq!(fs::read_dir(home.path().join("results")).unwrap().count(), 0);
    assert_nothing_is_left(home.path());
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let mut command = spry_run(home.path(), SCENARIO, &["--seeds", "20"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let count = |name: &str| fs::read_dir(home.path().join(name)).map_or(0, Iterator::count);
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    // One directory belongs to the cell, and one to its runner.
    until("a cell runs", &|| count("tmp") == 2 && count("results") == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    until("no file is left", &|| count("tmp") == 0 && count("results") == 0);
    until("no process is left", &|| !is_named_by_a_process(home.path()));
    assert_nothing_is_left(home.path());
}

#[test]
fn a_mistake_is_told_with_its_line_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    let wrong = SCENARIO.replace("kind = \"player\"", "kind = \"playr\"");
    let output = spry_run(home.path(), &wrong, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = errors(&output);
    assert!(said.contains("short.toml:9: unknown kind \"playr\"; did you mean \"player\"?"), "{said}");
    let output = spry_run(home.path(), SCENARIO, &["--vary", "stresers=1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("did you mean \"stressers\"?"), "{}", errors(&output));
    assert!(!home.path().join("results").exists());
}

#[test]
fn impossible_cpus_and_a_variable_varied_twice_are_mistakes() {
    let home = tempfile::tempdir().unwrap();
    for (vary, said) in [
        (&["cpus=17"][..], "the lab has 1 to 16 CPUs"),
        (&["cpus=all"], "the lab has 1 to 16 CPUs"),
        (&["cpus=0"], "it must be a number from 1 to 1024"),
        (&["cpus=1", "cpus=2"], "--vary cpus=1,2"),
    ] {
        let mut command = Command::new(spry());
        command.args(["run", "movie", "--on", "lab"]).args(vary.iter().flat_map(|vary| ["--vary", vary]));
        let output = command.current_dir(home.path()).env("SPRY_CACHE", home.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{vary:?}: {}", errors(&output));
        assert!(errors(&output).contains(said), "{vary:?}: {}", errors(&output));
    }
    assert!(!home.path().join("results").exists());
}

#[test]
fn a_scheduler_that_is_not_there_is_told_before_anything_runs() {
    let home = tempfile::tempdir().unwrap();
    let said = |scheduler: &str| {
        let output = spry_run(home.path(), SCENARIO, &["--scheduler", scheduler]).output().unwrap();
        assert!(!output.status.success());
        errors(&output)
    };
    assert!(said("scx_nobody").contains("./x peers"));
    assert!(said("./scx_nobody").contains("there is no scheduler at ./scx_nobody"));
    assert!(said("cfs").contains("eevdf, fifo, rr"));
    assert!(!home.path().join("results").exists());
}

/// The end of a pipe that nothing reads.
fn closed() -> Stdio {
    let (end, _) = UnixStream::pair().unwrap();
    Stdio::from(OwnedFd::from(end))
}

#[test]
fn a_closed_standard_error_changes_no_exit_status() {
    let home = tempfile::tempdir().unwrap();
    let results = home.path().join("results");
    let kept = ["--seeds", "1", "-o", results.to_str().unwrap()];
    let status = spry_run(home.path(), SCENARIO, &kept).stdout(Stdio::null()).stderr(closed()).status();
    assert!(status.unwrap().success() && results.is_dir());
    let failed = |stderr| {
        let mut command = spry_run(home.path(), SCENARIO, &["--scheduler", "scx_nobody"]);
        command.stdout(Stdio::null()).stderr(stderr).status().unwrap().code()
    };
    assert_eq!(failed(closed()), failed(Stdio::null()));
}

#[test]
fn recorded_cells_have_traces_and_compare_with_recorded_alone() {
    need_root();
    let home = tempfile::tempdir().unwrap();
    run(&mut spry_run(home.path(), SCENARIO, &["--record", "-o", "recorded"]));
    run(&mut spry_run(home.path(), SCENARIO, &["-o", "plain"]));
    let trace = home.path().join("recorded/traces/eevdf-seed1.spry");
    let report: Value =
        serde_json::from_str(&spry_says(["report".as_ref(), trace.as_os_str(), "--json".as_ref()])).unwrap();
    let tasks = report["tasks"].as_array().unwrap();
    assert!(
        tasks.iter().any(|task| task["comm"].as_str().is_some_and(|comm| comm.starts_with("player"))),
        "{tasks:?}"
    );
    let compare = |first: &str, second: &str| {
        Command::new(spry()).arg("compare").args([first, second]).current_dir(home.path()).output().unwrap()
    };
    assert!(errors(&compare("recorded", "plain")).contains("recording changes what happens"));
    assert!(compare("plain", "plain").status.success());
    assert_nothing_is_left(home.path());
}

#[test]
fn a_full_disk_is_told_as_one() {
    need_root();
    let home = tempfile::tempdir().unwrap();
    let disk = home.path().join("disk");
    fs::create_dir(&disk).unwrap();
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(&disk));
    let output = spry_run(home.path(), SCENARIO, &["-o", "disk/results"]).output();
    let left = fs::read_dir(&disk).unwrap().count();
    run(Command::new("umount").arg(&disk));
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("the disk is full"), "{}", errors(&output));
    assert_eq!(left, 0);
    assert_nothing_is_left(home.path());
}
