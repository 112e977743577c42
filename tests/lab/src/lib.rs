//! Runs jobs in the lab, for tests that hold its results and its failures against what is promised.

pub mod attacks;
pub mod desktop;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use spry_lab::{
    Event, FileSource, GuestCommand, Job, Lab, LabError, LabMachine, LabOptions, MachineSpec, Outcome, Stop,
};

pub use spry_test_run::programs;

/// The lab with programs that are as new as this test.
///
/// # Panics
/// Where they cannot be built, or the lab cannot be opened.
pub fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        let options = LabOptions { programs: Some(programs().to_owned()), ..LabOptions::default() };
        Lab::open(options).unwrap_or_else(|error| panic!("the lab cannot be opened: {error}"))
    })
}

/// An example program of a crate, as new as this test.
///
/// # Panics
/// Where it cannot be built, or there is none of that name.
pub fn example(package: &str, name: &str) -> PathBuf {
    let file = programs().join("examples").join(name);
    assert!(file.exists(), "{package} has no example {name}");
    file
}

/// A machine, fetched and built.
///
/// # Panics
/// Where it cannot be had.
pub fn machine(spec: &MachineSpec) -> LabMachine {
    lab().prepare(spec, &quiet, &Stop::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// Nobody watches.
pub fn quiet(_: Event<'_>) {}

/// Runs a job to its end.
///
/// # Errors
/// As the lab says.
pub fn run(machine: &LabMachine, job: &Job) -> Result<Outcome, LabError> {
    lab().run(machine, job, &quiet, &Stop::new())
}

/// A job of one shell script.
pub fn script(text: &str) -> Job {
    Job { commands: vec![shell(text, 60)], ..Job::default() }
}

/// A command that runs a shell script, for so many seconds at most. With `SPRY_TEST_PHASE` the script begins so many
/// seconds later: what a test promises holds wherever that lies between ticks and the scheduler's housekeeping.
pub fn shell(text: &str, limit_s: u32) -> GuestCommand {
    let text =
        env::var("SPRY_TEST_PHASE").map_or(text.to_owned(), |phase_s| format!("sleep {phase_s}\n{text}"));
    let argv = ["/bin/sh", "-c", &text].map(str::to_owned).into();
    GuestCommand { argv, env: Vec::new(), limit_s }
}

/// The same with `spry` among its commands.
///
/// # Panics
/// Where it cannot be built.
pub fn spry_script(text: &str) -> Job {
    let mut job = script(text);
    job.files.insert("/spry/bin/spry".to_owned(), FileSource::File(programs().join("spry")));
    job
}

/// What the first command printed.
///
/// # Panics
/// Where there is no such result.
pub fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.files["0.stdout"]).into_owned()
}

/// How many directories of this process' runs are in the cache that the lab uses.
///
/// # Panics
/// Where they cannot be counted.
pub fn run_directories(lab: &Lab) -> usize {
    let path: &Path = &lab.cache().join("runs");
    let entries = std::fs::read_dir(path).expect("the cache has a directory of runs").filter_map(Result::ok);
    let own = format!("{}-", std::process::id());
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}
