//! Real runs of the runner on this machine. They test results, failures, and that no process or file remains.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A scenario in a file of its own. The file is removed when this value is dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("spry-test-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a temporary file can be written");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn runner(file: &File) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spry-runner"));
    command.arg("run").arg("--scenario").arg(&file.0).stdin(Stdio::null());
    command
}

fn output(file: &File) -> Output {
    runner(file).output().expect("the runner starts")
}

fn result(file: &File) -> Value {
    let output = output(file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the runner prints JSON")
}

#[test]
fn timer_processes_wake_beside_a_command() {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spry-runner"));
        command.arg("timers").args(args).output().expect("the runner starts")
    };
    let output = run(&["3", "5000", "--", "sleep", "0.3"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cost: Value = serde_json::from_slice(&output.stdout).expect("the runner prints JSON");
    let number = |name: &str| cost[name].as_u64().unwrap_or_else(|| panic!("{name}: {cost}"));
    assert!(number("elapsed_ns") >= 300_000_000, "{cost}");
    // The timers of three processes expire 60 times each while the command sleeps.
    assert!(number("due") >= 180 && (1..=number("due")).contains(&number("signals")), "{cost}");
    assert!(cost["late"]["p99_us"].as_f64() < Some(5_000.0), "{cost}");
    let alone = run(&["0", "1000", "--", "true"]);
    let cost: Value = serde_json::from_slice(&alone.stdout).expect("the runner prints JSON");
    assert!(cost["late"].is_null() && cost["signals"] == 0, "{cost}");
    for (command, words) in [("false", "false failed"), ("./nowhere", "cannot be started")] {
        let failed = run(&["2", "1000", "--", command]);
        let error = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(failed.status.code() == Some(1) && error.contains(words), "{error}");
    }
}

#[test]
fn a_movie_is_shown() {
    // Decoding takes little CPU time and the frames are slow, so that even a busy machine shows some of them.
    let file = File::new(
        "movie.toml",
        "warmup_s = 0.5\nduration_s = 2\n[[task]]\nname = \"p\"\nkind = \"player\"\nfps = 10\n\
         decode = 0.01\n",
    );
    let result = result(&file);
    assert_eq!(
        result["metrics"]["frames_due"].as_u64().map(|due| (15..=20).contains(&due)),
        Some(true),
        "{result}"
    );
    assert!(result["metrics"]["frames_shown"].as_u64() > Some(0), "{result}");
    assert!(result["metrics"]["wake_lateness_ns"]["p50"].is_u64(), "{result}");
}

#[test]
fn whole_arrays_are_sorted() {
    let file = File::new(
        "sort.toml",
        "warmup_s = 0\nduration_s = 1\n[[task]]\nname = \"s\"\nkind = \"sorter\"\nnumbers = 1000\n",
    );
    let result = result(&file);
    let sorted = result["metrics"]["numbers_sorted"].as_u64();
    assert!(sorted.is_some_and(|sorted| sorted > 0 && sorted % 1000 == 0), "{result}");
}

#[test]
fn bytes_futexes_and_sockets_carry_from_task_to_task() {
    let file = File::new(
        "talk.toml",
        "warmup_s = 0\nduration_s = 5\n\
         [[task]]\nname = \"a\"\nloop = 20\nphases = [{ wake = \"p\" }, { wake = \"f\", via = \"futex\" }, \
         { wake = \"s\", via = \"socket\", bytes = 100 }]\n\
         [[task]]\nname = \"b\"\nloop = 20\nphases = [{ wait = \"p\" }, { wait = \"f\", via = \"futex\" }, \
         { wait = \"s\", via = \"socket\", bytes = 100 }]\n",
    );
    let begun = Instant::now();
    let result = result(&file);
    assert_eq!(result["metrics"]["a.passes"], 20, "{result}");
    assert_eq!(result["metrics"]["b.passes"], 20, "{result}");
    assert!(begun.elapsed() < Duration::from_secs(5), "both end before the time is over");
}

#[test]
fn keys_are_answered_and_frames_are_dropped_when_late() {
    let file = File::new(
        "keys.toml",
        "warmup_s = 0\nduration_s = 2\n\
         [[task]]\nname = \"typist\"\nloop = \"forever\"\nphases = [{ alarm = \"50ms\" }, { key = \"k\" }]\n\
         [[task]]\nname = \"editor\"\nloop = \"forever\"\nphases = [{ wait = \"k\" }, { run = \"1ms\" }, \
         { echo = \"k\" }]\n\
         [[task]]\nname = \"slow\"\nloop = \"forever\"\nphases = [{ frame = \"10ms\" }, \
         { sleep = \"25ms\" }]\n",
    );
    let result = result(&file);
    assert!(result["metrics"]["response_ns"]["p50"].as_u64() >= Some(500_000), "{result}");
    let due = result["metrics"]["frames_due"].as_u64().expect("frames are due");
    let shown = result["metrics"]["frames_shown"].as_u64().expect("frames are shown");
    assert!((190..=200).contains(&due), "{result}");
    assert!(shown <= due / 2, "{result}");
}

#[test]
fn an_rt_app_file_runs_as_it_is() {
    let file = File::new(
        "x.json",
        "{ \"tasks\": { \"a\": { \"loop\": 10, \"run\": 100, \"resume\": \"b\", \"timer\": { \"ref\": \
         \"unique\", \"period\": 20000 } },\n\
         \"b\": { \"suspend\", \"lock\": \"m\", \"run\": 50, \"unlock\": \"m\" } }, \"global\": \
         { \"duration\": 1 } }",
    );
    let result = result(&file);
    assert_eq!(result["metrics"]["a.passes"], 10, "{result}");
    assert!(result["metrics"]["b.passes"].as_u64() > Some(0), "{result}");
}

/// Files in rt-app's format that contain all features of rt-app's own examples. For each file: how many times
/// each task has gone through its events at the end.
const RT_APP: [(&str, &[(&str, u64)]); 6] = [
    ("children.json", &[("there", 1), ("parent", 5)]),
    ("handing-on.json", &[("giving", 1), ("waiting", 5), ("resting", 3), ("counting", 10)]),
    ("meeting.json", &[("early", 20), ("late", 20)]),
    ("memory.json", &[("writing", 5), ("chasing", 5)]),
    ("phases.json", &[("", 3)]),
    ("together.json", &[("one", 10), ("other", 200)]),
];
/// The files of `tests/rt-app` that only the tests of the system run, as root.
const FOR_ROOT: [&str; 2] = ["classes.json", "groups.json"];

fn rt_app(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rt-app").join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_spry-runner"));
    command.arg("run").arg("--scenario").arg(path).stdin(Stdio::null());
    let output = command.output().expect("the runner starts");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the runner prints JSON")
}

#[test]
fn rt_app_files_with_every_event_run_as_they_are() {
    for (name, tasks) in RT_APP {
        let result = rt_app(name);
        for (task, passes) in tasks {
            let metric = if task.is_empty() { "passes".to_owned() } else { format!("{task}.passes") };
            assert_eq!(result["metrics"][&metric], *passes, "{name}, {metric}: {result}");
        }
    }
    let result = rt_app("period.json");
    // Each of two threads does a pass every 50 ms for 2 s: about 80 passes. A busy machine does fewer.
    let periodic = result["metrics"]["periodic.passes"].as_u64();
    assert!(periodic.is_some_and(|passes| (20..=82).contains(&passes)), "{result}");
    assert_eq!(result["metrics"]["pausing.passes"], 5, "{result}");
    let mut known: Vec<&str> = RT_APP.map(|(name, _)| name).into_iter().chain(FOR_ROOT).collect();
    known.push("period.json");
    known.sort_unstable();
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rt-app")).expect("files");
    let mut files: Vec<_> =
        files.map(|file| file.expect("a file").file_name().into_string().expect("a plain name")).collect();
    files.sort();
    assert_eq!(files, known);
}

/// The runner's output for a compilation of a source that has these files in two directories.
fn compiled(name: &str, files: [&str; 2]) -> Output {
    let sources = spry_scratch::Scratch::make(None).expect("a temporary directory");
    for (place, text) in ["a", "b"].into_iter().zip(files) {
        let directory = sources.path().join("pack/src").join(place);
        fs::create_dir_all(&directory).expect("a directory can be made");
        fs::write(directory.join("file.c"), text).expect("a file can be written");
    }
    let text = "duration_s = 3\n[[task]]\nname = \"c\"\nkind = \"compile\"\nsource = \"pack\"\noptions = [\"-O1\"]\n";
    let file = File::new(name, text);
    runner(&file).env("SPRY_SOURCES", sources.path()).output().expect("the runner starts")
}

#[test]
fn a_source_is_compiled_by_file_and_a_failing_file_is_named() {
    let good = compiled("good.toml", ["int one;\n", "int two(void) { return 2; }\n"]);
    assert!(good.status.success(), "{good:?}");
    let result: Value = serde_json::from_slice(&good.stdout).expect("the runner prints JSON");
    assert!(result["metrics"]["files_compiled"].as_u64() >= Some(2), "{result}");
    let bad = compiled("bad.toml", ["int one;\n", "no C\n"]);
    assert_eq!(bad.status.code(), Some(1), "{bad:?}");
    assert!(String::from_utf8_lossy(&bad.stderr).contains("-c src/b/file.c failed"), "{bad:?}");
}

#[test]
fn a_mistake_is_told_apart_from_a_failure() {
    let mistake = output(&File::new("m.toml", "[[task]]\nname = \"t\"\nkind = \"x\"\n"));
    assert_eq!(mistake.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&mistake.stderr).contains("m.toml:3: unknown kind"));
    let text = "[machine]\nprograms = [\"no-such-program\"]\n[[task]]\nname = \"t\"\nkind = \"stresser\"\n";
    let failure = output(&File::new("f.toml", text));
    assert_eq!(failure.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failure.stderr).contains("not on PATH"), "{failure:?}");
    let text = "duration_s = 20\n[[task]]\nname = \"t\"\nphases = [{ exec = [\"false\"] }]\n[[task]]\n\
                name = \"u\"\nkind = \"stresser\"\n";
    let begun = Instant::now();
    let failure = output(&File::new("e.toml", text));
    assert_eq!(failure.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failure.stderr).contains("false failed"), "{failure:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "a failure ends the run");
}

/// How many processes have this text in their command line.
fn processes_with(text: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("there is /proc");
    let command = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).unwrap_or_default();
    let has = |command: &Vec<u8>| String::from_utf8_lossy(command).contains(text);
    entries.flatten().map(command).filter(has).count()
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    // The length of the sleep distinguishes this test's processes from all others.
    let sleep = format!("{}.25", 1000 + std::process::id());
    let file = File::new(
        "c.toml",
        &format!(
            "duration_s = 60\n[[task]]\nname = \"s\"\ncount = 3\nkind = \"stresser\"\nclass = \"idle\"\n\
             [[task]]\nname = \"e\"\nphases = [{{ exec = [\"sh\", \"-c\", \"sleep {sleep} & wait\"] }}]\n"
        ),
    );
    let mut child =
        runner(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the runner starts");
    let begun = Instant::now();
    while processes_with(&sleep) < 2 && begun.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(processes_with(&sleep) >= 2, "the tasks have begun");
    let scratch = std::env::temp_dir().join(format!("spry-{}-0", child.id()));
    assert!(scratch.is_dir(), "the run has a directory");
    Command::new("kill").arg("-INT").arg(child.id().to_string()).status().expect("kill runs");
    assert_eq!(child.wait().expect("the runner ends").code(), Some(1));
    assert!(!scratch.exists(), "the directory is gone");
    assert_eq!(processes_with(&sleep), 0, "no process is left");
    assert_eq!(processes_with(&file.0.to_string_lossy()), 0, "no task is left");
}

#[test]
fn a_killed_runner_leaves_no_file_and_no_task() {
    let home = std::env::temp_dir().join(format!("spry-test-{}-home", std::process::id()));
    fs::create_dir(&home).expect("a temporary directory");
    let file = File::new(
        "k.toml",
        "duration_s = 60\n[[task]]\nname = \"w\"\nloop = \"forever\"\n\
         phases = [{ write = \"f\", bytes = \"64KiB\" }, { sleep = \"1ms\" }]\n",
    );
    let mut command = runner(&file);
    let mut child = command.env("TMPDIR", &home).stdout(Stdio::null()).spawn().expect("the runner starts");
    let scratch = home.join(format!("spry-{}-0", child.id()));
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    until("the task writes", &|| fs::read_dir(&scratch).is_ok_and(|mut files| files.next().is_some()));
    child.kill().expect("a runner to kill");
    child.wait().expect("its end");
    until("no task is left", &|| processes_with(&file.0.to_string_lossy()) == 0);
    until("no file is left", &|| fs::read_dir(&home).expect("the test's own").next().is_none());
    fs::remove_dir(&home).expect("it is empty");
}
