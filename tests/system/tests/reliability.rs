//! Failures while recording cost no more of the trace than necessary.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use spry_system_tests::{Recording, Table, need_root, number, report, run, spry};
use tempfile::TempDir;

/// Work that makes tens of thousands of events a second until the value is dropped.
struct Load(Child);

impl Load {
    fn start() -> Load {
        let mut command = Command::new("perf");
        command.args(["bench", "sched", "pipe", "-T", "-l", "1000000000"]);
        Load(command.stdout(Stdio::null()).spawn().expect("perf starts"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().expect("the load is still there");
        self.0.wait().expect("it can be waited for");
    }
}

/// A small file system of its own, which is unmounted when the value is dropped.
struct MountedFilesystem(TempDir);

impl MountedFilesystem {
    fn new(options: &str) -> MountedFilesystem {
        let dir = tempfile::tempdir().expect("scratch space");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()));
        MountedFilesystem(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for MountedFilesystem {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(self.path()));
    }
}

fn record(file: &Path, args: &[&str]) -> Output {
    let output = Command::new(spry()).args(["record", "--quiet", "-o"]).arg(file).args(args).output();
    output.expect("spry starts")
}

/// Fails unless the command failed and printed the reason in one line.
#[track_caller]
fn failed_in_one_line(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it ended well");
    assert_eq!(said.trim_end().lines().count(), 1, "it said:\n{said}");
    assert!(said.contains(why), "it said:\n{said}");
}

#[test]
fn a_killed_recorder_leaves_all_but_the_last_tenth_of_a_second() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("killed.spry");
    let _load = Load::start();
    let mut recorder = Command::new(spry());
    recorder.args(["record", "--quiet", "--duration", "60", "-o"]).arg(&file);
    let mut recorder = recorder.spawn().expect("spry starts");
    while fs::metadata(&file).map_or(0, |meta| meta.len()) < 4096 {
        assert!(recorder.try_wait().expect("it can be asked").is_none(), "the recorder ended by itself");
        thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    thread::sleep(Duration::from_secs(2));
    recorder.kill().expect("it runs");
    let lived_ns = began.elapsed().as_nanos() as f64;
    recorder.wait().expect("it can be waited for");
    let report = report(&file);
    // A tenth of a second more is allowed, for events that were in the file when the clock started and for
    // late writes on a busy machine.
    assert!(number(&report["trace"]["duration_ns"]) > lived_ns - 200e6, "{}", report["trace"]);
}

#[test]
fn a_full_disk_ends_a_recording_in_one_line_and_the_file_reads() {
    need_root();
    let disk = MountedFilesystem::new("size=512k");
    let file = disk.path().join("full.spry");
    let _load = Load::start();
    let began = Instant::now();
    let output = record(&file, &["--duration", "20", "--compress", "none"]);
    assert!(began.elapsed() < Duration::from_secs(30), "it took {:?}", began.elapsed());
    failed_in_one_line(&output, "No space left on device");
    assert!(number(&report(&file)["trace"]["events"]) > 1000.0);
}

#[test]
fn a_read_only_directory_is_refused_in_one_line() {
    need_root();
    let disk = MountedFilesystem::new("ro");
    failed_in_one_line(&record(&disk.path().join("no.spry"), &["--duration", "1"]), "Read-only file system");
}

#[test]
fn two_recorders_at_once_see_the_same_switches() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let files: [PathBuf; 2] = ["one.spry", "two.spry"].map(|name| dir.path().join(name));
    let recordings = files.each_ref().map(|file| Recording::start(file, "sched"));
    let mut load =
        Command::new("perf").args(["bench", "sched", "pipe", "-l", "20000"]).stdout(Stdio::null()).spawn();
    let load = load.as_mut().expect("perf starts");
    let tid = load.id();
    assert!(load.wait().expect("it ends").success());
    for recording in recordings {
        recording.stop();
    }
    // The switches of each CPU: pairs of the task before and the task after.
    let [one, two] = files.each_ref().map(|file| {
        let mut found: BTreeMap<Option<u64>, Vec<[Option<u64>; 2]>> = BTreeMap::new();
        Table::of(file, dir.path()).each(|row| {
            let tids = [row.number("tid"), row.number("other_tid")];
            if row.text("event") == "switch" && tids.contains(&Some(u64::from(tid))) {
                found.entry(row.number("cpu")).or_default().push(tids);
            }
        });
        found
    });
    let switches = one.values().map(Vec::len).sum::<usize>();
    assert!(switches > 20_000, "{switches} switches");
    for (cpu, switches) in &one {
        let other = two.get(cpu).map_or(&[][..], Vec::as_slice);
        let parting = switches.iter().zip(other).position(|(a, b)| a != b);
        assert_eq!((parting, switches.len()), (None, other.len()), "CPU {cpu:?}");
    }
    assert_eq!(one.len(), two.len(), "CPUs");
}

/// How many events of a kind a trace has, and how many events of any kind were lost.
fn count(file: &Path, kind: &str) -> (u64, u64) {
    let (mut found, mut lost) = (0, 0);
    Table::of(file, file.parent().expect("it is in a directory")).each(|row| {
        found += u64::from(row.text("event") == kind);
        lost += row.number("count").unwrap_or(0);
    });
    (found, lost)
}

/// How many forks the whole machine had since boot, threads included.
fn forks_since_boot() -> u64 {
    let stat = fs::read_to_string("/proc/stat").expect("the kernel counts forks");
    let count = stat.lines().find_map(|line| line.strip_prefix("processes ")).expect("it has a line");
    count.parse().expect("a number")
}

#[test]
fn a_storm_of_20_000_processes_is_recorded_or_counted_as_lost() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("storm.spry");
    let before = forks_since_boot();
    let output = record(&file, &["--", "bash", "-c", "for ((i = 0; i < 20000; i++)); do (:); done"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let happened = forks_since_boot() - before;
    assert!(happened >= 20_000, "{happened} forks happened");
    let (forks, lost) = count(&file, "fork");
    assert!(forks > 0 && forks + lost >= 20_000, "{forks} forks, {lost} lost");
    assert!(number(&report(&file)["trace"]["events"]) >= forks as f64);
}

#[test]
fn a_process_that_renames_itself_10_000_times_is_followed() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("names.spry");
    let rename = "for ((i = 0; i <= 10000; i++)); do printf name$i >/proc/$$/comm; done; sleep 0.2; true";
    let output = record(&file, &["--", "bash", "-c", rename]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (names, lost) = count(&file, "comm");
    assert!(names + lost >= 10_000, "{names} names, {lost} lost");
    let tasks = report(&file)["tasks"].as_array().expect("the report lists tasks").clone();
    assert!(tasks.iter().any(|task| task["comm"] == "name10000"), "the last name is missing");
}

#[test]
fn without_privilege_recording_is_refused_in_one_line() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    // A user without privileges can reach both the program and the directory.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let program = dir.path().join("spry");
    fs::copy(spry(), &program).expect("it can be copied");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(&program);
    command.args(["record", "--quiet", "--duration", "1", "-o"]).arg(dir.path().join("no.spry"));
    failed_in_one_line(&command.output().expect("setpriv starts"), "run as root, or with CAP_BPF");
}

#[test]
fn a_trace_is_its_owner_s_and_a_command_s_status_is_passed_on() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("status.spry");
    assert_eq!(record(&file, &["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
}

/// Runs `spry record` with its output in `file` from a shell, after the shell's `before`.
fn record_after(before: &str, file: &Path, args: &str) -> Command {
    let mut shell = Command::new("sh");
    let record = format!("{before}; exec \"$0\" record --quiet -o \"$1\" {args}");
    shell.args(["-c", &record]).arg(spry()).arg(file);
    shell
}

#[test]
fn a_lost_terminal_ends_a_recording_unless_under_nohup() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    for (before, duration_s, ends_early) in [(":", 60, true), ("trap '' HUP", 3, false)] {
        let file = dir.path().join(format!("{duration_s}.spry"));
        let mut recorder = record_after(before, &file, &format!("--duration {duration_s}"));
        let mut recorder = recorder.spawn().expect("sh starts");
        while fs::metadata(&file).map_or(0, |meta| meta.len()) == 0 {
            assert!(recorder.try_wait().expect("it can be asked").is_none(), "the recorder ended by itself");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_millis(500));
        spry_sys::signal::send(recorder.id(), spry_sys::Signal::HUP).expect("it is still there");
        assert!(recorder.wait().expect("it ends").success());
        let output =
            Command::new(spry()).args(["report", "--json"]).arg(&file).output().expect("spry starts");
        // A trace that was not finished is read with a warning.
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let length_s = number(&report(&file)["trace"]["duration_ns"]) / 1e9;
        assert!(if ends_early { length_s < 30.0 } else { length_s > 2.5 }, "{length_s} s");
    }
}

#[test]
fn limits_of_files_are_raised_or_named() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let raised = record_after("ulimit -S -n 20", &dir.path().join("raised.spry"), "--duration 0.2").output();
    let raised = raised.expect("sh starts");
    assert!(raised.status.success(), "{}", String::from_utf8_lossy(&raised.stderr));
    // The right to raise a hard limit is taken away.
    let mut bound = Command::new("setpriv");
    let few = record_after("ulimit -n 20", &dir.path().join("few.spry"), "--duration 0.2");
    bound.args(["--bounding-set", "-sys_resource"]).arg(few.get_program()).args(few.get_args());
    failed_in_one_line(&bound.output().expect("setpriv starts"), "raise it (`ulimit -n`");
    let file = dir.path().join("long.spry");
    let _load = Load::start();
    let long = record_after("ulimit -f 1024", &file, "--compress none --duration 20").output();
    failed_in_one_line(&long.expect("sh starts"), "`ulimit -f`");
    assert!(number(&report(&file)["trace"]["events"]) > 1000.0);
}
