//! The same job gives the same results, whatever else this machine does meanwhile.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::thread;

use spry_lab::{Job, MachineSpec, Outcome};
use spry_lab_tests::{machine, printed, run, script};

/// Two tasks that take turns, with every moment that they see.
pub(crate) const RACE: &str =
    "for i in 1 2 3; do (j=0; while [ $j -lt 400 ]; do j=$((j+1)); done; echo $i $(cat /proc/uptime)) & done
    wait; cat /proc/self/stat /proc/schedstat /proc/interrupts /proc/stat; head -c 16 /dev/urandom | od -x";

/// Endless loops on every CPU, ended when this goes away.
pub(crate) struct Busy(Vec<Child>);

impl Busy {
    pub(crate) fn new() -> Self {
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let hog = |_| {
            Command::new("nice")
                .args(["sh", "-c", "while :; do :; done"])
                .spawn()
                .expect("a loop can be started")
        };
        Self((0..cpus).map(hog).collect())
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

/// The same, and the kernel's messages: of two runs that began from memory.
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
