//! `spry tune` on the running kernel: slices have the requested length, and the machine's settings are
//! restored however spry ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_sys::attributes::Attributes;
use spry_sys::{Signal, clock, process, signal};
use spry_system_tests::desk::await_some;
use spry_system_tests::{need_root, run, spry};

const SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
const FEATURES: &str = "/sys/kernel/debug/sched/features";
const ROBIN: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";
const BOOK: &str = "/run/spry/tune/book.json";

/// Makes a debugfs with the settings of the fair class, invisible to other mounts. The running kernel may be
/// locked down, and is not changed. The lab has a test with the real debugfs.
const MOUNTS: &str = "mount -t tmpfs -o mode=700 none /sys/kernel/debug && mkdir /sys/kernel/debug/sched && \
    mount -t tmpfs none /run && printf 700000 >/sys/kernel/debug/sched/base_slice_ns && \
    printf NO_HRTICK >/sys/kernel/debug/sched/features && echo && read -r _";

/// A namespace of mounts with settings of its own, and the first values of these settings.
struct Machine {
    namespace: Child,
    before: Vec<String>,
}

impl Machine {
    fn new() -> Machine {
        need_root();
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", MOUNTS]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut namespace = command.spawn().expect("unshare starts");
        let mut output = BufReader::new(namespace.stdout.take().expect("it is a pipe"));
        assert_eq!(output.read_line(&mut String::new()).expect("a line"), 1, "the mounts are not there");
        let mut machine = Machine { namespace, before: Vec::new() };
        machine.before = machine.knobs();
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.namespace.id()))
    }

    fn read(&self, path: &str) -> String {
        read(self.path(path))
    }

    fn knobs(&self) -> Vec<String> {
        [SLICE, FEATURES, ROBIN].map(|path| self.read(path)).into()
    }

    #[track_caller]
    fn is_as_before(&self) {
        assert_eq!(self.knobs(), self.before);
        assert!(self.read(BOOK).contains("\"entries\":[]"), "{}", self.read(BOOK));
    }

    fn enter(&self, user: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.namespace.id().to_string(), "-m"]).args(user);
        command.env("SPRY_SOCKET", "/nowhere/sched.sock").arg("--");
        command
    }

    fn tune(&self, args: &[&str]) -> Command {
        let mut command = self.enter(&[]);
        command.arg(spry()).arg("tune").args(args);
        command
    }

    fn tune_as_nobody(&self, args: &[&str]) -> Command {
        let mut command = self.enter(&["-S", "65534", "-G", "65534"]);
        command.arg(spry()).arg("tune").args(args);
        command
    }

    fn wait_for_slice(&self, wanted: &str) {
        await_some("the slice", || (self.read(SLICE) == wanted).then_some(()));
    }

    /// Fails unless this request is refused in one line with these words.
    #[track_caller]
    fn refuses(&self, args: &[&str], words: &str) {
        let (output, said) = output(&mut self.tune(&[args, &["--", "true"]].concat()));
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.lines().count() == 1 && said.contains(words), "{said}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.namespace.stdin.take());
        // If it has ended already, there is no process to wait for.
        _ = self.namespace.wait();
    }
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
}

fn output(command: &mut Command) -> (Output, String) {
    let output = command.output().expect("spry starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

/// A run of `spry tune` with a command that waits until its standard input ends.
struct WaitingTune(Child);

impl WaitingTune {
    fn start(machine: &Machine, args: &[&str]) -> WaitingTune {
        let mut command = machine.tune(&[args, &["--", "sh", "-c", "echo; read -r _"]].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("spry starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        output.read_line(&mut String::new()).expect("the command runs");
        WaitingTune(child)
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("it is ours");
    }

    /// The guardian's process.
    fn guardian(&self) -> u32 {
        let children = read(format!("/proc/{0}/task/{0}/children", self.0.id()));
        let children = children.split_whitespace().map(|word| word.parse::<u32>().expect("a number"));
        let is_guardian = |tgid: &u32| read(format!("/proc/{tgid}/comm")) == "spry-tune-guard";
        children.into_iter().find(is_guardian).expect("there is one")
    }
}

#[test]
fn a_command_and_what_it_starts_have_their_slice_without_root() {
    let machine = Machine::new();
    let mut command = machine.tune_as_nobody(&[
        "--json",
        "--quantum-us",
        "3000",
        "--",
        "sh",
        "-c",
        "sleep 60 & echo $!; wait",
    ]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spry starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    output.read_line(&mut line).expect("a number");
    let inner: u32 = line.trim().parse().expect("a number");
    let slice_ns = Attributes::of(inner).expect("it runs").slice_ns();
    signal::send(inner, Signal::KILL).expect("it runs");
    child.wait().expect("it is ours");
    let mut said = String::new();
    BufReader::new(child.stderr.take().expect("it is a pipe")).read_line(&mut said).expect("a line");
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(slice_ns, 3_000_000, "{said}");
    assert_eq!(said["knobs"][0]["now"]["ns"], 3_000_000);
    // This user cannot see whether HRTICK is on.
    assert!(said["notes"][0].as_str().is_some_and(|note| note.contains("HRTICK")), "{said}");
    assert_eq!(machine.knobs(), machine.before);
}

#[test]
fn settings_that_need_root_are_refused_in_one_line() {
    let machine = Machine::new();
    for args in [&["--all"][..], &["--class", "rr"]] {
        let args = [args, &["--quantum-us", "3000", "--", "true"]].concat();
        let (output, said) = output(&mut machine.tune_as_nobody(&args));
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.lines().count() == 1 && said.contains("it needs root"), "{said}");
    }
    assert_eq!(machine.knobs(), machine.before);
}

#[test]
fn a_slice_that_the_kernel_does_not_give_is_refused() {
    let machine = Machine::new();
    machine.refuses(&["--quantum-us", "50"], "50 us is 100 us");
    assert_eq!(machine.knobs(), machine.before);
}

#[test]
fn the_machine_s_slice_is_set_while_the_command_runs() {
    let machine = Machine::new();
    let args = ["--all", "--quantum-us", "3000", "--", "cat", SLICE, FEATURES];
    let (output, said) = output(&mut machine.tune(&args));
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(found.starts_with("3000000") && !found.contains("NO_HRTICK"), "{found}{said}");
    assert!(said.contains("base slice of the machine") && said.contains("3000 us, until"), "{said}");
    machine.is_as_before();
}

#[test]
fn a_command_that_does_not_exist_leaves_the_knobs_as_they_were() {
    let machine = Machine::new();
    let (output, said) =
        output(&mut machine.tune(&["--all", "--quantum-us", "3000", "--", "/nowhere/program"]));
    assert_eq!(output.status.code(), Some(127), "{said}");
    machine.is_as_before();
}

#[test]
fn the_guardian_gives_back_what_a_killed_spry_has_set() {
    let machine = Machine::new();
    let mut held = WaitingTune::start(&machine, &["--all", "--quantum-us", "3000"]);
    assert_eq!(machine.read(SLICE), "3000000");
    let guardian = held.guardian();
    held.0.kill().expect("it runs");
    let began = Instant::now();
    machine.wait_for_slice(&machine.before[0]);
    assert!(began.elapsed() < Duration::from_secs(5));
    held.end();
    await_some("the guardian's end", || {
        let gone = process::open(guardian).is_err();
        gone.then_some(())
    });
    machine.is_as_before();
}

#[test]
fn the_next_run_gives_back_what_both_killed_have_set() {
    let machine = Machine::new();
    let mut held = WaitingTune::start(&machine, &["--all", "--quantum-us", "3000"]);
    signal::send(held.guardian(), Signal::KILL).expect("it runs");
    held.0.kill().expect("it runs");
    held.end();
    assert_eq!(machine.read(SLICE), "3000000");
    let (restored, said) = output(&mut machine.tune(&["--restore"]));
    assert!(restored.status.success() && said.contains(SLICE), "{said}");
    machine.is_as_before();
    assert!(output(&mut machine.tune(&["--restore"])).1.contains("nothing was left"));
}

#[test]
fn runs_beside_each_other_give_back_what_was_first() {
    let machine = Machine::new();
    let first = WaitingTune::start(&machine, &["--all", "--quantum-us", "3000"]);
    let second = WaitingTune::start(&machine, &["--all", "--quantum-us", "5000"]);
    let mut third = WaitingTune::start(&machine, &["--quantum-us", "9000"]);
    assert_eq!(machine.read(SLICE), "5000000");
    third.0.kill().expect("it runs");
    first.end();
    assert_eq!(machine.read(SLICE), "5000000");
    assert!(!machine.read(FEATURES).contains("NO_HRTICK"));
    second.end();
    third.end();
    await_some("the knobs", || (machine.knobs() == machine.before).then_some(()));
    machine.is_as_before();
}

#[test]
fn a_knob_that_root_changed_meanwhile_stays() {
    let machine = Machine::new();
    let held = WaitingTune::start(&machine, &["--all", "--quantum-us", "3000"]);
    fs::write(machine.path(SLICE), "4000000").expect("root may");
    held.end();
    assert_eq!(machine.read(SLICE), "4000000");
    fs::write(machine.path(SLICE), &machine.before[0]).expect("root may");
    machine.is_as_before();
}

#[test]
fn the_round_robin_quantum_is_what_was_asked_for_or_refused() {
    let machine = Machine::new();
    let (output, said) =
        output(&mut machine.tune(&["--class", "rr", "--quantum-us", "20000", "--", "cat", ROBIN]));
    assert_eq!((&output.stdout[..], output.status.code()), (&b"20\n"[..], Some(0)), "{said}");
    machine.is_as_before();
    if clock::tick_ns() > 1_000_000 {
        machine.refuses(&["--class", "rr", "--quantum-us", "1000"], "which counts ticks");
    }
    if !Path::new("/proc/sys/kernel/sched_rr_timeslice_us").exists() {
        machine.refuses(&["--class", "rr", "--quantum-us", "1500"], "whole milliseconds");
    }
    machine.is_as_before();
}

#[test]
fn debugfs_for_reading_alone_is_named() {
    let machine = Machine::new();
    let mut remount = machine.enter(&[]);
    run(remount.args(["mount", "-o", "remount,ro", "/sys/kernel/debug"]));
    let mut command = machine.tune(&["--all", "--quantum-us", "20000", "--", "true"]);
    let (output, said) = output(&mut command);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.lines().count() == 1 && said.contains("mounted for reading alone"), "{said}");
    assert_eq!(machine.knobs(), machine.before);
}
