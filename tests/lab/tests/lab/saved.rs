//! Tests machines that are booted once and saved. Machines that are saved again are the same, and no result
//! changes, even if their files were damaged.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use spry_lab::{Beginning, Cache, Job, Lab, LabOptions, MachineSpec, Outcome, Stop, Topology};
use spry_lab_tests::{is_long, machine, programs, quiet, run, script};
use tempfile::TempDir;

use crate::repeats::{Busy, RACE, same, same_results};

/// A cache with everything that the tests' own cache has, except saved machines.
fn without_machines() -> TempDir {
    let shared = Cache::default_root();
    let own = tempfile::tempdir_in(&shared).expect("a directory");
    for built in ["apt", "emulators", "images", "initrds", "kernels", "sources"] {
        if shared.join(built).exists() {
            symlink(shared.join(built), own.path().join(built)).expect("a link can be made");
        }
    }
    own
}

fn run_in(cache: &Path, job: &Job) -> Outcome {
    let options = LabOptions {
        cache: Some(cache.to_owned()),
        programs: Some(programs().to_owned()),
        ..LabOptions::default()
    };
    let lab = Lab::open(options).expect("the lab can be opened");
    let machine = lab.prepare(&MachineSpec::default(), &quiet, &Stop::new()).expect("it is there already");
    lab.run(&machine, job, &quiet, &Stop::new()).expect("it runs")
}

fn race(cpus: u32) -> Job {
    Job { topology: Topology::of_cores(cpus), ..script(RACE) }
}

/// The path of the only saved machine of a cache.
fn only(cache: &Path) -> PathBuf {
    let mut saved = fs::read_dir(cache.join("saved")).expect("a machine was saved");
    let found = saved.next().expect("a machine was saved").expect("it can be read").path();
    assert!(saved.next().is_none(), "one machine was saved");
    found
}

fn booted_anew_it_is_the_same(cpus: u32) {
    let known = run(&machine(&MachineSpec::default()), &race(cpus)).expect("it runs");
    for beside in [Some(Busy::new()), None] {
        let own = without_machines();
        same(&known, &run_in(own.path(), &race(cpus)));
        drop(beside);
    }
}

#[test]
fn a_machine_booted_and_saved_anew_gives_the_same_bytes() {
    booted_anew_it_is_the_same(1);
}

#[test]
fn a_machine_of_two_cpus_saved_anew_gives_the_same_bytes() {
    booted_anew_it_is_the_same(2);
}

#[test]
fn a_run_of_one_cpu_booted_or_from_memory_leaves_the_same_bytes() {
    let machine = machine(&MachineSpec::default());
    let known = run(&machine, &race(1)).expect("it runs");
    same_results(&known, &run(&machine, &Job { begins: Beginning::Booted, ..race(1) }).expect("it runs"));
}

#[test]
fn a_saved_machine_with_damaged_files_is_booted_anew() {
    let own = without_machines();
    let known = run_in(own.path(), &race(1));
    let machine = only(own.path());
    let damages: [(&str, &dyn Fn()); 5] = [
        ("another byte in its memory", &|| {
            let memory = File::options().write(true).open(machine.join("memory")).expect("it is there");
            memory.write_all_at(b"X", 0x0123_4567).expect("it can be written");
        }),
        ("half a state", &|| {
            let state = File::options().write(true).open(machine.join("state")).expect("it is there");
            state.set_len(100_000).expect("it can be cut");
        }),
        ("no description", &|| fs::remove_file(machine.join("machine.json")).expect("it is there")),
        ("a directory for a lock", &|| {
            fs::remove_file(machine.join("lock")).expect("it is there");
            fs::create_dir(machine.join("lock")).expect("it can be made");
        }),
        ("a file for all of it", &|| {
            fs::remove_dir_all(&machine).expect("it is there");
            fs::write(&machine, "").expect("it can be made");
        }),
    ];
    // Each damage takes a boot. The short form has the first three.
    for (damage, inflict) in &damages[..if is_long() { damages.len() } else { 3 }] {
        inflict();
        println!("{damage}");
        same(&known, &run_in(own.path(), &race(1)));
        assert_eq!(only(own.path()), machine);
    }
}
