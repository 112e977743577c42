//! On each CPU, Spry sees exactly the switches that perf sees.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use spry_system_tests::{Recording, Table, hidden_threads, need_root, run};

/// A switch: its time, the task before it, and the task after it.
#[derive(Clone, Copy, Debug)]
struct Switch {
    time_ns: u64,
    prev: u64,
    next: u64,
}

impl Switch {
    fn same_tasks(&self, other: &Switch) -> bool {
        (self.prev, self.next) == (other.prev, other.next)
    }
}

/// At most this many recordings are made, because perf does not always record everything.
const ATTEMPTS: usize = 5;

/// This many consecutive switches of one CPU must be the same in both recordings.
const ENOUGH: usize = 10_000;

/// The switches of each CPU, in their order.
type ByCpu = BTreeMap<u64, Vec<Switch>>;

fn spry_switches(table: Table) -> ByCpu {
    let mut found = ByCpu::new();
    table.each(|row| {
        if row.text("event") == "switch" {
            let number = |column| row.number(column).expect("a switch has it");
            let switch =
                Switch { time_ns: number("time_ns"), prev: number("tid"), next: number("other_tid") };
            found.entry(number("cpu")).or_default().push(switch);
        }
    });
    found
}

/// Records with perf while a load with many switches, forks and migrations runs; `None` if perf lost events.
fn perf_switches(dir: &Path) -> Option<ByCpu> {
    let data = dir.join("perf.data");
    let load = "perf bench sched pipe -l 40000 & hackbench -g 2 -l 100; for i in $(seq 200); do /bin/true; \
                done; wait; sleep 0.3";
    let mut record = Command::new("perf");
    record.args(["sched", "record", "-k", "CLOCK_MONOTONIC", "-m", "8192", "-o"]).arg(&data);
    run(record.args(["--", "bash", "-c", load]));
    let mut script = Command::new("perf");
    script.args(["script", "--show-lost-events", "--ns", "-F", "cpu,time,event,trace", "-i"]).arg(&data);
    let text = String::from_utf8_lossy(&run(&mut script).stdout).into_owned();
    fs::remove_file(&data).expect("perf's file is there");
    let mut found = ByCpu::new();
    for line in text.lines() {
        if line.contains("PERF_RECORD_LOST") {
            return None;
        }
        if line.contains(" sched:sched_switch: ") {
            let (cpu, switch) = perf_switch(line).unwrap_or_else(|| panic!("perf printed {line}"));
            found.entry(cpu).or_default().push(switch);
        }
    }
    Some(found)
}

/// Reads a line like `[000]  2312.878033600:  sched:sched_switch: prev_comm=a prev_pid=1 ... ==> next_comm=b
/// next_pid=2 next_prio=120`: the CPU and the switch.
fn perf_switch(line: &str) -> Option<(u64, Switch)> {
    let (cpu, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let (seconds, nanoseconds) = rest.split_once(':')?.0.trim().split_once('.')?;
    // Names of tasks may hold any text, so the last occurrence of each field is used.
    let field = |text: &str, name: &str| {
        let value = text.rsplit_once(name)?.1;
        value.split(' ').next()?.parse().ok()
    };
    let (left, right) = line.rsplit_once(" ==> ")?;
    let time_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanoseconds.parse::<u64>().ok()?;
    let switch = Switch { time_ns, prev: field(left, " prev_pid=")?, next: field(right, " next_pid=")? };
    Some((cpu.parse().ok()?, switch))
}

/// The result of comparing two recordings of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Comparison {
    /// How many switches both recordings have, in the same order.
    agreed: usize,
    /// How many switches perf lacks without counting them as lost. At such a place perf's next switch leaves
    /// another task than the task that its last switch entered. Spry's switches lead from the second task to
    /// the first. perf lacks switches while it switches its events on. As long as the machine runs, it may
    /// also lack switches out of the idle task of one CPU.
    perf_lacks: usize,
    /// The place of each recording at the first switch that differs although no switch of perf is missing;
    /// the ends of the recordings if there is no such switch.
    perf_at: usize,
    spry_at: usize,
}

/// Compares the recordings, if the place `start` of `spry` corresponds to perf's first switch.
fn compare(spry: &[Switch], perf: &[Switch], start: usize, hidden: &BTreeSet<u64>) -> Comparison {
    let mut found = Comparison { spry_at: start, ..Comparison::default() };
    while let (Some(ours), Some(theirs)) = (spry.get(found.spry_at), perf.get(found.perf_at)) {
        let broken = found.perf_at > 0 && perf[found.perf_at - 1].next != theirs.prev;
        let follows = found.spry_at == start || {
            let before = spry[found.spry_at - 1].next;
            before == ours.prev || hidden.contains(&before)
        };
        let is_apart = ours.time_ns.abs_diff(theirs.time_ns) >= CLOCKS_APART_NS
            && !(is_before(ours, perf.get(found.perf_at + 1))
                && is_before(theirs, spry.get(found.spry_at + 1)));
        if ours.same_tasks(theirs) && !is_apart {
            found.agreed += 1;
            found.perf_at += 1;
        } else if broken && follows && ours.time_ns < theirs.time_ns {
            found.perf_lacks += 1;
        } else {
            break;
        }
        found.spry_at += 1;
    }
    found
}

/// The two time stamps of a switch are taken one after the other, and an interrupt may come between them. If
/// a hypervisor stops the CPU there, they are further apart, but both lie before the CPU's next switch.
const CLOCKS_APART_NS: u64 = 1_000_000;

/// Whether a switch was before the next one, if there is a next one.
fn is_before(switch: &Switch, next: Option<&Switch>) -> bool {
    next.is_none_or(|next| switch.time_ns < next.time_ns)
}

/// The comparison that agrees longest, out of the comparisons that start near perf's first switch.
fn best_comparison(spry: &[Switch], perf: &[Switch], hidden: &BTreeSet<u64>) -> Comparison {
    let near = |switch: &Switch| {
        switch.same_tasks(&perf[0]) && switch.time_ns.abs_diff(perf[0].time_ns) < CLOCKS_APART_NS
    };
    let starts = (0..spry.len()).filter(|&at| near(&spry[at]));
    starts.map(|at| compare(spry, perf, at, hidden)).max_by_key(|found| found.perf_at).unwrap_or_default()
}

/// The switches around a place in a recording, one in a line.
fn around(switches: &[Switch], at: usize) -> String {
    let near = &switches[at.saturating_sub(3).min(switches.len())..(at + 3).min(switches.len())];
    let line = |switch: &Switch| format!("  {} ns: {} -> {}", switch.time_ns, switch.prev, switch.next);
    near.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Compares every CPU. Returns the greatest number of equal switches of a CPU where perf lacks none.
fn compare_cpus(spry: &ByCpu, perf: &ByCpu, hidden: &BTreeSet<u64>) -> usize {
    let mut whole = 0;
    for (cpu, perf) in perf {
        let spry = spry.get(cpu).unwrap_or_else(|| panic!("spry saw no switch on CPU {cpu}"));
        // perf began later and ended earlier than Spry, so Spry must have every switch that perf has.
        let found = best_comparison(spry, perf, hidden);
        assert!(
            found.perf_at == perf.len(),
            "CPU {cpu}: {found:?} of {} switches; there perf saw\n{}and spry\n{}",
            perf.len(),
            around(perf, found.perf_at),
            around(spry, found.spry_at)
        );
        if found.perf_lacks == 0 {
            whole = whole.max(found.agreed);
        }
    }
    whole
}

#[test]
fn the_sequence_of_switches_on_each_cpu_is_perfs() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let trace = dir.path().join("switches.spry");
    let mut hidden = hidden_threads();
    // perf loses events now and then even with large buffers, and more often lacks some without counting
    // them. In every attempt the switches that perf has are compared with Spry's. In at least one attempt,
    // the sequence of a CPU must be complete and the same.
    let mut whole = 0;
    for _ in 0..ATTEMPTS {
        let recording = Recording::start(&trace, "sched");
        let perf = perf_switches(dir.path());
        recording.stop();
        hidden.extend(hidden_threads());
        let Some(perf) = perf else { continue };
        whole = compare_cpus(&spry_switches(Table::of(&trace, dir.path())), &perf, &hidden);
        if whole > ENOUGH {
            return;
        }
    }
    panic!("perf lacked switches of every CPU in each of {ATTEMPTS} recordings; at last {whole} were whole");
}
