//! Runs jobs in the lab, for tests of the lab's promised results and failures.

pub mod attacks;
pub mod deceptions;
pub mod desktop;

use std::env;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use spry_lab::{
    Event, FileSource, GuestCommand, Job, KernelChoice, Lab, LabError, LabMachine, LabOptions, MachineSpec,
    Outcome, Stop,
};

pub use spry_test_run::{is_long, programs};

/// The lab with Spry's programs. They are built from the same sources as this test.
///
/// # Panics
/// If the programs cannot be built, or the lab cannot be opened.
pub fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        let options = LabOptions { programs: Some(programs().to_owned()), ..LabOptions::default() };
        Lab::open(options).unwrap_or_else(|error| panic!("the lab cannot be opened: {error}"))
    })
}

/// The path of an example program of any crate. It is built from the same sources as this test.
///
/// # Panics
/// If the example cannot be built or does not exist.
pub fn example(name: &str) -> PathBuf {
    let file = programs().join("examples").join(name);
    assert!(file.exists(), "no crate has an example {name}");
    file
}

/// Fetches and builds a machine.
///
/// # Panics
/// If the machine cannot be prepared.
pub fn machine(spec: &MachineSpec) -> LabMachine {
    lab().prepare(spec, &quiet, &Stop::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// Ignores the events that the lab reports.
pub fn quiet(_: Event<'_>) {}

/// Runs a job to its end.
///
/// # Errors
/// If the lab fails.
pub fn run(machine: &LabMachine, job: &Job) -> Result<Outcome, LabError> {
    lab().run(machine, job, &quiet, &Stop::new())
}

/// The code with which the lab makes a virtual machine of a job.
const MODEL: [&str; 3] = [
    include_str!("../../../crates/prove/lab/src/lab.rs"),
    include_str!("../../../crates/prove/lab/src/vm.rs"),
    include_str!("../../../crates/prove/lab/src/topology.rs"),
];

/// The standard output of a job's first command, kept under the hash of everything on which the run depends:
/// a run of equal bytes gives equal output. This is for runs without Spry's own scheduler, since a change of
/// Spry does not change them.
///
/// # Errors
/// If the lab fails.
///
/// # Panics
/// If a file of the job cannot be read, or the output cannot be kept.
pub fn printed_before(machine: &LabMachine, job: &Job) -> Result<String, LabError> {
    let mut hasher = DefaultHasher::new();
    hasher.write(format!("{machine:?} {job:?}").as_bytes());
    MODEL.iter().for_each(|code| hasher.write(code.as_bytes()));
    for source in job.files.values() {
        if let FileSource::File(path) = source {
            hasher.write(&std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
    let directory = programs().join("../lab-kept");
    let kept = directory.join(format!("{:016x}", hasher.finish()));
    if let Ok(text) = std::fs::read_to_string(&kept) {
        return Ok(text);
    }
    let text = printed(&run(machine, job)?);
    std::fs::create_dir_all(&directory).expect("the target directory can be written");
    // Another test may keep the same output at the same time.
    let own = kept.with_extension(std::process::id().to_string());
    std::fs::write(&own, &text).and_then(|()| std::fs::rename(&own, &kept)).expect("the output can be kept");
    Ok(text)
}

/// The beginning of scripts: the daemon acts through sched_ext. Its process is `$daemon`, its messages
/// are in `/tmp/log`.
pub const DAEMON_ACTS: &str = "spry-sched run --actuator scx 2>/tmp/log & daemon=$!
until spry sched status --json 2>/dev/null | grep -q '\"acting\"'; do sleep 0.5; done
";

/// The shift of machines on which an instruction takes 4 ns instead of 1 ns. A second of a busy CPU
/// then takes the host a quarter of the time. Tests of shares and turns use it: these do not depend on
/// the CPU's speed.
pub const SLOW_CPU: u8 = 2;

/// A job that runs one shell script.
pub fn script(text: &str) -> Job {
    let job = Job { commands: vec![shell(text, 60)], ..Job::default() };
    with_spin(job)
}

/// Adds the endless loop `/spry/spin` to a job's files.
pub fn with_spin(mut job: Job) -> Job {
    job.files.insert("/spry/spin".to_owned(), FileSource::File(example("spin")));
    job
}

/// A command that runs a shell script for at most this number of seconds. With `SPRY_TEST_PHASE` the
/// script begins that number of seconds later. A test must hold at any phase of the ticks and of the
/// scheduler's regular work.
pub fn shell(text: &str, limit_s: u32) -> GuestCommand {
    let text =
        env::var("SPRY_TEST_PHASE").map_or(text.to_owned(), |phase_s| format!("sleep {phase_s}\n{text}"));
    let argv = ["/bin/sh", "-c", &text].map(str::to_owned).into();
    GuestCommand { argv, env: Vec::new(), limit_s }
}

/// A job that runs one shell script; the program `spry` is among the script's commands.
///
/// # Panics
/// If `spry` cannot be built.
pub fn spry_script(text: &str) -> Job {
    let mut job = script(text);
    job.files.insert("/spry/bin/spry".to_owned(), FileSource::File(programs().join("spry")));
    job
}

/// A job with a shell script of at most this number of seconds. The script's commands include Spry's
/// programs, the scheduler's examples, and the files of the variable `SPRY_TEST_FILES` (separated by `:`).
/// The script's output goes to standard output.
///
/// # Panics
/// If a program cannot be built.
pub fn script_with_programs(text: &str, limit_s: u32) -> Job {
    let job = Job { commands: vec![shell(&format!("exec 2>&1\n{text}"), limit_s)], ..Job::default() };
    let mut job = with_spin(job);
    let own = ["spry", "spry-sched", "spry-eyes"].map(|name| programs().join(name));
    let examples = ["attack", "crowd", "late", "scx_stack", "storm"].map(example);
    let named = env::var("SPRY_TEST_FILES").unwrap_or_default();
    let named = named.split(':').filter(|path| !path.is_empty()).map(Into::into);
    for path in own.into_iter().chain(examples).chain(named) {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        job.files.insert(format!("/spry/bin/{name}"), FileSource::File(path));
    }
    job
}

/// The kernel that the variable `SPRY_TEST_KERNEL` names, such as `newest-rt`; without the variable
/// the usual kernel.
///
/// # Panics
/// If there is no such kernel.
pub fn kernel_of_environment() -> KernelChoice {
    env::var("SPRY_TEST_KERNEL").map_or_else(
        |_| KernelChoice::default(),
        |name| name.parse().unwrap_or_else(|error| panic!("{error}")),
    )
}

/// The standard output of the first command.
///
/// # Panics
/// If the run has no such result.
pub fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.files["0.stdout"]).into_owned()
}

/// How many run directories of this process are in the cache of the lab.
///
/// # Panics
/// If the directories cannot be counted.
pub fn run_directories(lab: &Lab) -> usize {
    let path: &Path = &lab.cache().join("runs");
    let entries = std::fs::read_dir(path).expect("the cache has a directory of runs").filter_map(Result::ok);
    let own = format!("{}-", std::process::id());
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
}

/// The emulators that a process has started and that still run.
///
/// # Panics
/// If there is no `/proc`.
pub fn emulators_of(tgid: u32) -> Vec<u32> {
    let is_child = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        let parent = after_name.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        parent == Some(tgid) && stat.contains("(qemu)")
    };
    let entries = std::fs::read_dir("/proc").expect("there is a /proc").filter_map(Result::ok);
    entries.filter(is_child).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
