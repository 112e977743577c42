//! What one run of the lab does, and what comes out of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::protocol::{Ended, GuestCommand};
use crate::scheduler::Setup;
use crate::topology::Topology;

/// Where a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Begins {
    /// At a saved machine, which is booted first if the cache does not hold it.
    #[default]
    FromMemory,
    /// With a boot of its own, to check that a saved machine changes nothing.
    Booted,
}

/// One run: a machine that has just booted, some programs, their results.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where it begins.
    pub begins: Begins,
    /// One instruction takes 2 to the power of this, in nanoseconds.
    pub shift: u8,
    /// Its CPUs, 1 to [`CPUS_MAX`](crate::CPUS_MAX).
    pub topology: Topology,
    /// Whatever is random in the guest once it has booted comes from this number.
    pub seed: u64,
    /// Parameters of the kernel beyond the lab's own, such as `preempt=full`.
    pub cmdline: Vec<String>,
    /// Settings and the scheduler under test. Its class is for the scenario's runner, which must be told itself.
    pub setup: Setup,
    /// Records the last command.
    pub record: Option<Record>,
    /// Files beside the image's, by their paths in the guest (`/spry/...`).
    pub files: BTreeMap<String, FileSource>,
    /// The programs to run, one after another.
    pub commands: Vec<GuestCommand>,
    /// When the first of them starts, seconds after boot; 8 at least, later where loading the scheduler takes longer.
    pub start_at_s: u32,
    /// Space for results, MiB.
    pub results_mib: u32,
    /// The guest's memory beside the image, MiB.
    pub memory_mib: u32,
    /// How much of this machine's CPU time the run may take, seconds.
    pub cpu_limit_s: u64,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            begins: Begins::default(),
            shift: 0,
            topology: Topology::default(),
            seed: 1,
            cmdline: Vec::new(),
            setup: Setup::default(),
            record: None,
            files: BTreeMap::new(),
            commands: Vec::new(),
            start_at_s: 8,
            results_mib: 64,
            memory_mib: 1792,
            cpu_limit_s: 900,
        }
    }
}

impl Job {
    /// A job that runs a scenario: its text, further arguments of `spry-runner run`, and how long that may take in
    /// seconds of the guest. The runner's output is the result file `runner.json`.
    pub fn scenario(text: &str, arguments: &[String], limit_s: u32) -> Self {
        let mut job = Self::default();
        let path = "/spry/scenario.toml";
        job.files.insert(path.to_owned(), FileSource::Bytes(text.as_bytes().to_vec()));
        let mut argv: Vec<String> = ["spry-runner", "run", "--scenario", path].map(str::to_owned).into();
        argv.extend_from_slice(arguments);
        argv.extend(["--out", "/results/runner.json"].map(str::to_owned));
        job.commands.push(GuestCommand { argv, env: Vec::new(), limit_s });
        job
    }
}

/// How the last command is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Groups of events beyond `sched`.
    pub groups: Vec<String>,
}

/// The result file that a recording leaves.
pub const TRACE: &str = "trace.spry";

/// Where a file for the guest comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// From memory.
    Bytes(Vec<u8>),
    /// A file of this machine. If it is a program, it is executable in the guest, and checked against the image.
    File(PathBuf),
}

/// What a run leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Everything that programs left in `/results`, by name; `0.stdout` and `0.stderr` are the first command's.
    pub files: BTreeMap<String, Vec<u8>>,
    /// How each command ended.
    pub commands: Vec<Ended>,
    /// When the job began, milliseconds after boot.
    pub booted_ms: u64,
    /// When the scheduler under test was in charge, milliseconds after boot.
    pub scheduler_loaded_ms: Option<u64>,
    /// When the first command started, milliseconds after boot.
    pub started_ms: u64,
    /// When the results were complete, milliseconds after boot.
    pub ended_ms: u64,
    /// How long all that took here.
    pub real: Duration,
    /// What the kernel said.
    pub console: String,
}
