//! Runs jobs in the lab, for tests that hold its results and its failures against what is promised.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use spry_lab::{
    Event, FileSource, GuestCommand, Job, Lab, LabError, LabMachine, LabOptions, MachineSpec, Outcome, Stop,
};

/// The lab with programs that are as new as this test: those of `SPRY_PROGRAMS`, or such as cargo builds now.
///
/// # Panics
/// Where they cannot be built, or the lab cannot be opened.
pub fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        let options = LabOptions { programs: Some(programs()), ..LabOptions::default() };
        Lab::open(options).unwrap_or_else(|error| panic!("the lab cannot be opened: {error}"))
    })
}

/// The directory of Spry's programs.
///
/// # Panics
/// Where they cannot be built.
pub fn programs() -> PathBuf {
    if let Some(path) = env::var_os("SPRY_PROGRAMS") {
        return PathBuf::from(path);
    }
    let test = env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down").to_owned();
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args([
        "build",
        "--release",
        "-p",
        "spry-lab",
        "-p",
        "spry-workload",
        "-p",
        "spry-cli",
        "-p",
        "spry-scheduler",
    ]);
    build.arg("--target-dir").arg(&target).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = build.output().unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("release")
}

/// An example program of a crate, as new as this test and of its profile.
///
/// # Panics
/// Where it cannot be built.
pub fn example(package: &str, name: &str) -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down");
    let profile = if test.starts_with(target.join("release")) { "release" } else { "checked" };
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--profile", profile, "-p", package, "--example", name, "--target-dir"]);
    let output = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(profile).join("examples").join(name)
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
    let argv = ["/bin/sh", "-c", text].map(str::to_owned).into();
    Job { commands: vec![GuestCommand { argv, env: Vec::new(), limit_s: 60 }], ..Job::default() }
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
