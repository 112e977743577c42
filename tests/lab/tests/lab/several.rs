//! Tests guests with several CPUs: time passes evenly on all CPUs, under any load of each, and the topology
//! is the scenario's.

use std::collections::BTreeMap;

use spry_lab::{CacheSharing, CacheSizes, FileSource, GuestCommand, Job, MachineSpec, Outcome, Topology};
use spry_lab_tests::{example, machine, printed, run, script};

use crate::repeats::{Busy, same};

fn even(cpus: u32) -> Job {
    let topology = Topology::of_cores(cpus);
    let mut job = Job { topology, ..Job::default() };
    job.commands = vec![GuestCommand { argv: vec!["/spry/even".to_owned()], env: vec![], limit_s: 60 }];
    job.files.insert("/spry/even".to_owned(), FileSource::File(example("even")));
    job
}

/// Numbers that the example printed, by the words before them.
fn figures(outcome: &Outcome) -> BTreeMap<String, Vec<f64>> {
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for line in printed(outcome).lines() {
        let (word, numbers) = line.split_once(' ').expect("a word and figures");
        let numbers = numbers.split(' ').map(|number| number.parse::<f64>().expect("a number"));
        found.entry(word.to_owned()).or_default().extend(numbers);
    }
    found
}

/// Checks that 20 million instructions take 20 ms on each machine, within 0.5 %, and that a CPU is woken
/// within a few turns.
fn time_is_even_on(cpus: u32) {
    let machine = machine(&MachineSpec::default());
    let alone = run(&machine, &even(cpus)).expect("it runs");
    let figures = figures(&alone);
    println!("{cpus} CPUs: {figures:?}");
    let loops: Vec<f64> = figures["loop"].chunks(2).map(|line| line[1] / 1e6).collect();
    assert_eq!(loops.len(), cpus as usize);
    assert!(loops.iter().all(|&ms| (ms - 20.05).abs() < 0.005 * 20.0), "{loops:?}");
    if let Some([median_ns, _, rare_ns]) = figures.get("wake").map(Vec::as_slice) {
        assert!(*median_ns < 12_000.0 && *rare_ns < 30_000.0, "{figures:?}");
    }
    let busy = Busy::new();
    let loaded = run(&machine, &even(cpus)).expect("it runs");
    drop(busy);
    same(&alone, &loaded);
}

#[test]
fn a_counted_loop_takes_as_long_on_one_cpu() {
    time_is_even_on(1);
}

#[test]
fn a_counted_loop_on_two_cpus_takes_the_same_time_and_repeats() {
    time_is_even_on(2);
}

#[test]
fn a_counted_loop_on_four_cpus_takes_the_same_time_and_repeats() {
    time_is_even_on(4);
}

#[test]
fn a_counted_loop_on_eight_cpus_takes_the_same_time_and_repeats() {
    time_is_even_on(8);
}

#[test]
fn cpus_hang_together_and_share_caches_as_the_job_says() {
    let machine = machine(&MachineSpec::default());
    let text = "cd /sys/devices/system/cpu
        for cpu in cpu?; do (cd $cpu && echo $cpu package $(cat topology/physical_package_id) \
            threads $(cat topology/thread_siblings_list) l3 $(cat cache/index3/shared_cpu_list))
        done
        cat cpu0/cache/index?/size | tr '\\n' ' '";
    let said = |topology| printed(&run(&machine, &Job { topology, ..script(text) }).expect("it runs"));
    let sizes = CacheSizes { l1d: Some(48 << 10), l2: Some(2 << 20), l3: Some(24 << 20) };
    let nested = Topology { dies: 2, cores: 1, threads: 2, sizes, ..Topology::of_sockets(2, 4) };
    assert_eq!(nested.cpus(), 8);
    let of_nested = said(nested);
    for line in [
        "cpu0 package 0 threads 0-1 l3 0-1",
        "cpu2 package 0 threads 2-3 l3 2-3",
        "cpu7 package 1 threads 6-7 l3 6-7",
        "48K 32K 2048K 24576K",
    ] {
        assert!(of_nested.contains(line), "{line}: {of_nested}");
    }
    let own = said(Topology { cache: CacheSharing::Core, ..Topology::of_cores(2) });
    assert!(
        own.contains("cpu0 package 0 threads 0 l3 0") && own.contains("cpu1 package 0 threads 1 l3 1"),
        "{own}"
    );
}
