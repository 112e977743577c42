//! Tests that the same job gives the same results, under any load of this machine at the same time.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;

use spry_lab::{Job, MachineSpec, Outcome, Topology};
use spry_lab_tests::{lab, machine, printed, programs, run, script};

/// Two tasks that take turns. They print the time of every turn.
pub(crate) const RACE: &str =
    "for i in 1 2 3; do (j=0; while [ $j -lt 400 ]; do j=$((j+1)); done; echo $i $(cat /proc/uptime)) & done
    wait; cat /proc/self/stat /proc/schedstat /proc/interrupts /proc/stat; head -c 16 /dev/urandom | od -x";

/// Endless loops on every CPU. They end when this value is dropped.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    pub(crate) fn new() -> Self {
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::loops(cpus, 10)
    }

    /// Starts `count` loops with this nice value.
    fn loops(count: usize, nice: u32) -> Self {
        let hog = |_| {
            Command::new("nice")
                .args(["-n", &nice.to_string(), "sh", "-c", "while :; do :; done"])
                .spawn()
                .expect("a loop can be started")
        };
        Self((0..count).map(hog).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().expect("it runs");
            child.wait().expect("it can be waited for");
        }
    }
}

pub(crate) fn same_results(first: &Outcome, second: &Outcome) {
    let files = |outcome: &Outcome| -> BTreeMap<String, String> {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        outcome.files.iter().map(|(name, bytes)| (name.clone(), shown(bytes))).collect()
    };
    assert_eq!(files(first), files(second));
    assert_eq!(first.commands, second.commands);
    assert_eq!(first.ended_ms, second.ended_ms);
}

/// Checks that two runs that continued a saved machine have the same results and the same
/// messages of the kernel.
pub(crate) fn same(first: &Outcome, second: &Outcome) {
    same_results(first, second);
    assert_eq!(first.console, second.console);
}

#[test]
fn a_run_repeats_byte_for_byte_while_every_cpu_is_busy() {
    let machine = machine(&MachineSpec::default());
    let job = script(RACE);
    let alone = run(&machine, &job).expect("it runs");
    assert!(printed(&alone).lines().count() > 20, "{}", printed(&alone));
    let busy = Busy::new();
    let loaded = run(&machine, &job).expect("it runs");
    drop(busy);
    same(&alone, &loaded);
}

// A path in a program gives it a different image in each folder, and a different image is a different draw.
#[test]
fn what_enters_a_guest_names_no_folder_of_this_machine() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the tree's root");
    let home = env::var("HOME").expect("there is a home");
    let cargo = env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let target = programs().ancestors().nth(1).expect("the target directory");
    let folders = [tree, target, Path::new(&cargo)].map(|path| path.display().to_string());
    let mut files: Vec<PathBuf> = ["spry", "spry-sched", "spry-eyes", "spry-runner", "spry-guest"]
        .map(|name| programs().join(name))
        .into();
    for name in [
        "attack",
        "crowd",
        "even",
        "hands",
        "late",
        "naps",
        "plant",
        "rated",
        "reserver",
        "scx_stack",
        "service",
        "storm",
    ] {
        files.push(programs().join("examples").join(name));
    }
    files.push(lab().cache().join("peers/bin/scx_bpfland"));
    let mut found = Vec::new();
    for file in files {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for folder in &folders {
            if bytes.windows(folder.len()).any(|part| part == folder.as_bytes()) {
                found.push(format!("{} holds {folder}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "build with ./x, which hides them:\n{}", found.join("\n"));
}

/// Naps between short work, which leave the CPUs idle for a part of the time. It prints all times to the ns.
const NAPS: &str = "
nap() { for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.0$1; j=0; while [ $j -lt $2 ]; do j=$((j+1)); done; done; }
nap 1 20 & nap 3 90 & nap 2 400 & wait
cat /proc/schedstat /proc/interrupts /proc/timer_list";

/// The number of runs of a job for a number of CPUs: `SPRY_TEST_RUNS`, or 10 and 2.
fn runs(cpus: u32) -> usize {
    let asked = env::var("SPRY_TEST_RUNS").ok().map(|text| text.parse().expect("a number of runs"));
    match cpus {
        1 => asked.unwrap_or(10),
        _ => asked.map_or(2, |asked| asked / 5),
    }
}

/// How many loops run on this machine beside these runs: `SPRY_TEST_LOOPS`, or 4.
fn loops() -> usize {
    env::var("SPRY_TEST_LOOPS").map_or(4, |text| text.parse().expect("a number of loops"))
}

// The host's threads, and timers of the host's time, must not reach a guest that is idle.
#[test]
fn runs_with_idle_time_repeat_beside_four_loops() {
    let machine = machine(&MachineSpec::default());
    for cpus in [1, 2, 4] {
        let job = Job { topology: Topology::of_cores(cpus), ..script(NAPS) };
        let first = run(&machine, &job).expect("it runs");
        assert!(printed(&first).lines().count() > 40, "{}", printed(&first));
        let busy = Busy::loops(loops(), 0);
        for _ in 0..runs(cpus) {
            same(&first, &run(&machine, &job).expect("it runs"));
        }
        drop(busy);
    }
}

#[test]
fn another_seed_gives_other_chance() {
    let machine = machine(&MachineSpec::default());
    let chance = |seed| {
        let job = Job { seed, ..script("head -c 16 /dev/urandom | od -x") };
        printed(&run(&machine, &job).expect("it runs"))
    };
    assert_ne!(chance(1), chance(2));
}

#[test]
fn an_image_with_a_display_server_repeats() {
    let packages = ["xvfb", "x11-utils", "x11-xkb-utils", "xterm", "xfonts-base"];
    let packages = packages.map(str::to_owned).into();
    let machine = machine(&MachineSpec { packages, ..MachineSpec::default() });
    let job = script(
        "Xvfb :0 -screen 0 640x480x24 >/results/x.log 2>&1 &
         export DISPLAY=:0
         until xdpyinfo >/results/display 2>&1; do sleep 0.2; done
         xterm -e 'cat /proc/uptime >/results/terminal; cat /proc/loadavg'
         cat /proc/uptime /proc/interrupts",
    );
    let first = run(&machine, &job).expect("it runs");
    assert!(String::from_utf8_lossy(&first.files["display"]).contains("640x480 pixels"));
    assert!(!first.files["terminal"].is_empty());
    same(&first, &run(&machine, &job).expect("it runs"));
}
