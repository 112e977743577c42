//! One run of the lab: its programs, its machine and its results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use spry_experiment::scheduler::Setup;

use crate::protocol::{CommandEnd, GuestCommand};
use crate::topology::Topology;

/// The state from which a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// The run continues a saved machine. If the cache does not hold it, the machine is booted
    /// and saved first.
    #[default]
    FromMemory,
    /// The run boots its machine itself. This checks that a saved machine gives the same results.
    Booted,
}

/// One run of the lab: a machine that has just booted, the programs that it runs, and their results.
#[derive(Clone, Debug)]
pub struct Job {
    /// The state from which the run begins.
    pub begins: Beginning,
    /// An instruction takes 2 to the power of this number, in nanoseconds.
    pub shift: u8,
    /// The topology of the machine's CPUs, which are 1 to [`CPUS_MAX`](crate::CPUS_MAX).
    pub topology: Topology,
    /// The seed of all random numbers in the guest after its boot.
    pub seed: u64,
    /// Parameters of the kernel beyond the lab's own, such as `preempt=full`.
    pub cmdline: Vec<String>,
    /// The kernel's settings and the scheduler under test. The scheduling class in the setup is for the
    /// scenario's runner, and must be among the runner's own arguments.
    pub setup: Setup,
    /// How the last command is recorded; `None`: it is not recorded.
    pub record: Option<Record>,
    /// Files that the guest gets in addition to the image, by their paths in the guest (`/spry/...`).
    pub files: BTreeMap<String, FileSource>,
    /// The programs to run, one after another.
    pub commands: Vec<GuestCommand>,
    /// The moment at which the first command starts, seconds after the boot. It is 8 at least, and later if
    /// the scheduler takes longer to load.
    pub start_at_s: u32,
    /// The size of the memory for results, MiB.
    pub results_mib: u32,
    /// The size of the guest's memory without the image, MiB.
    pub memory_mib: u32,
    /// How much of this machine's CPU time the run may take, seconds.
    pub cpu_limit_s: u64,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            begins: Beginning::default(),
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
    /// Makes a job that runs a scenario. It takes the scenario's text, further arguments of `spry-runner
    /// run`, and the time that the run may take in seconds of the guest. The runner's output becomes the
    /// result file `runner.json`.
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
    /// The groups of events that are recorded in addition to `sched`.
    pub groups: Vec<String>,
}

/// The result file with the trace of a recording.
pub const TRACE: &str = "trace.spry";

/// The source of a file for the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// The file's content.
    Bytes(Vec<u8>),
    /// The path of a file of this machine. If the file is a program, it is executable in the guest, and the
    /// lab checks that it can run in the image.
    File(PathBuf),
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All files that programs left in `/results`, by their names. `0.stdout` and `0.stderr` are the output
    /// of the first command.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The end of each command.
    pub commands: Vec<CommandEnd>,
    /// The start of the guest's work on the job, milliseconds after the boot.
    pub booted_ms: u64,
    /// The time at which the scheduler under test was in charge, milliseconds after the boot; `None` without
    /// such a scheduler.
    pub scheduler_loaded_ms: Option<u64>,
    /// The start of the first command, milliseconds after the boot.
    pub started_ms: u64,
    /// The time at which the results were complete, milliseconds after the boot.
    pub ended_ms: u64,
    /// The duration of the run in real time on this machine.
    pub real: Duration,
    /// The kernel's messages on the console.
    pub console: String,
}
