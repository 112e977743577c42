//! The laboratory as a machine that runs cells. Each cell gets a virtual machine that continues a saved
//! machine, and so repeats exactly.

mod prepare;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use spry_experiment::scheduler::{SchedulerError, SchedulerSpec};
use spry_experiment::{Cell, CellError, CellOutput, Machine, RECORDED_GROUPS, Stop, programs};
use spry_runner::x11::files::DIRECTORY_VARIABLE;
use spry_scenario::model::{self as scenario, CacheWish};

use crate::error::LabError;
use crate::job::{FileSource, Job, Outcome, Record, TRACE};
use crate::lab::{Lab, LabMachine, model_of_time};
use crate::progress::Event;
use crate::protocol::GuestCommand;
use crate::topology::{CPUS_MAX, CacheSharing, CacheSizes, Topology};

pub use prepare::GuestError;

/// How much of the guest's time the runner may take beyond the scenario's own time, seconds.
const OVERHEAD_S: u32 = 180;
/// A rough estimate of the real seconds for one second of the guest. It is used only until the first
/// cell has succeeded.
const REAL_PER_GUEST: f64 = 0.8;
/// The guest's time before and after the scenario together, seconds.
const AROUND_S: f64 = 3.0;
/// The memory that a virtual machine may take, bytes. If this machine has less memory, fewer virtual machines
/// run side by side.
const VM_BYTES: u64 = 2 << 30;

/// The lab, prepared for an experiment.
#[derive(Debug)]
pub struct Guest {
    lab: Lab,
    /// The prepared machine: its kernel and its image.
    machine: LabMachine,
    /// Each pair of an instruction's power and a number of CPUs that some of the cells have.
    clocks: BTreeSet<(u32, u32)>,
    /// How long the scenario runs, including its warm-up.
    time: Duration,
    /// The directory of the published schedulers.
    peers: PathBuf,
    /// The generated files that the scenario needs, by their names.
    files: BTreeMap<String, PathBuf>,
    /// The hashes of Spry's own programs and of the generated files.
    programs: BTreeMap<String, String>,
}

/// How many virtual machines run side by side: as many as this machine has CPUs, but no more than
/// its memory allows.
pub fn side_by_side() -> usize {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free_kib: Option<u64> = free.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    let fit = free_kib.map_or(cpus, |kib| (kib * 1024 / VM_BYTES) as usize);
    cpus.min(fit).max(1)
}

impl Machine for Guest {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn kernel(&self) -> String {
        self.machine.kernel.release.clone()
    }

    fn inputs(&self) -> BTreeMap<String, Value> {
        let hashes = self.machine.inputs().into_iter().chain(self.programs.clone());
        let mut parts: BTreeMap<String, Value> = hashes.map(|(name, hash)| (name, json!(hash))).collect();
        let times = self.clocks.iter().map(|&(shift, cpus)| model_of_time(shift, cpus));
        parts.insert("time".to_owned(), json!(times.collect::<Vec<_>>().join("; ")));
        parts
    }

    fn scheduler(&self, scheduler: &SchedulerSpec) -> Result<String, SchedulerError> {
        scheduler.input(&self.peers)
    }

    fn side_by_side(&self) -> usize {
        side_by_side()
    }

    fn cell_time(&self) -> Duration {
        Duration::from_secs_f64((self.time.as_secs_f64() + AROUND_S) * REAL_PER_GUEST)
    }

    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
        let recorded =
            trace.map(|_| Record { groups: RECORDED_GROUPS.map(|group| group.name().to_owned()).into() });
        let job = self.job(cell, recorded)?;
        let outcome =
            self.lab.run(&self.machine, &job, &|_: Event<'_>| {}, stop).map_err(|error| match error {
                LabError::Interrupted => CellError::Interrupted,
                error => failed(error),
            })?;
        let output = read(&outcome)?;
        if let Some(trace) = trace {
            let recorded = outcome.files.get(TRACE).ok_or_else(|| failed("recording left no trace"))?;
            fs::write(trace, recorded).map_err(|error| failed(format!("{}: {error}", trace.display())))?;
        }
        Ok(output)
    }
}

fn failed(error: impl ToString) -> CellError {
    CellError::Failed(error.to_string())
}

impl Guest {
    /// The job of the virtual machine for a cell. The scenario's demands on the machine may depend on the
    /// variables of the cell.
    fn job(&self, cell: &Cell, record: Option<Record>) -> Result<Job, CellError> {
        let scenario = &cell.scenario;
        let setup = cell.setup(&self.peers).map_err(failed)?;
        let shift = scenario.machine.shift.unwrap_or(0);
        let path = format!("/spry/{}", cell.scenario_file_name());
        let text = scenario.text.clone().into_bytes();
        let mut files = BTreeMap::from([(path.clone(), FileSource::Bytes(text))]);
        for (name, file) in &self.files {
            files.insert(format!("{FILES}/{name}"), FileSource::File(file.clone()));
        }
        if scenario.programs().iter().any(|program| program == SPRY) {
            files.insert(format!("/spry/bin/{SPRY}"), FileSource::File(programs::own(SPRY).map_err(failed)?));
        }
        let mut argv: Vec<String> = ["spry-runner", "run", "--scenario", &path].map(str::to_owned).into();
        argv.extend(cell.runner_arguments(&format!("instructions:{shift}"), setup.class));
        argv.extend(["--out".to_owned(), format!("/results/{RUNNER_OUTPUT}")]);
        if scenario.machine.ram_disk_mb.is_some() {
            argv.extend(["--scratch", "/scratch"].map(str::to_owned));
        }
        let env = vec![(DIRECTORY_VARIABLE.to_owned(), FILES.to_owned())];
        let time_s = (scenario.warmup_ns + scenario.duration_ns).div_ceil(1_000_000_000) as u32;
        let kernel = &scenario.machine.kernel;
        let mut cmdline: Vec<String> =
            kernel.cmdline.iter().flat_map(|words| words.split_whitespace()).map(str::to_owned).collect();
        cmdline.extend(kernel.preempt.iter().map(|model| format!("preempt={model}")));
        let shift = u8::try_from(shift).map_err(|_| failed("shift is too large"))?;
        Ok(Job {
            shift,
            topology: topology(&scenario.machine).map_err(failed)?,
            seed: cell.seed,
            cmdline,
            setup,
            record,
            files,
            commands: vec![GuestCommand { argv, env, limit_s: time_s + OVERHEAD_S }],
            ..Job::default()
        })
    }
}

/// The topology of the CPUs that a scenario needs.
///
/// # Errors
/// If the scenario names no number of CPUs, the lab does not have so many, or they do not fit the topology.
fn topology(machine: &scenario::MachineWish) -> Result<Topology, String> {
    let Some(cpus) = machine.cpus.filter(|&cpus| cpus <= CPUS_MAX) else {
        return Err(format!(
            "the lab has 1 to {CPUS_MAX} CPUs: say how many (`cpus` in [machine], --vary cpus=4)"
        ));
    };
    let wish = machine.topology;
    let others = wish.sockets * wish.dies * wish.threads;
    if cpus % others != 0 {
        return Err(format!(
            "{cpus} CPUs do not fill the {} sockets of {} dies with {} threads a core of [machine.topology]: \
             take a multiple of {others} (`cpus` in [machine], --vary cpus={})",
            wish.sockets,
            wish.dies,
            wish.threads,
            others * cpus.div_ceil(others)
        ));
    }
    let cache = match wish.cache {
        CacheWish::Die => CacheSharing::Die,
        CacheWish::Core => CacheSharing::Core,
    };
    Ok(Topology {
        sockets: wish.sockets,
        dies: wish.dies,
        cores: cpus / others,
        threads: wish.threads,
        cache,
        sizes: CacheSizes { l1d: wish.l1d, l2: wish.l2, l3: wish.l3 },
    })
}

/// Spry's own command, which some kinds of tasks use.
const SPRY: &str = "spry";
/// The directory of the generated files in the guest.
const FILES: &str = "/spry/files";
const RUNNER_OUTPUT: &str = "runner.json";

fn read(outcome: &Outcome) -> Result<CellOutput, CellError> {
    let text = |name: &str| outcome.files.get(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match outcome.commands.first() {
        Some(ended) if ended.exit == Some(0) => {}
        ended => {
            let said = text("0.stderr").unwrap_or_default();
            let said = said.trim();
            let how = match ended.map(|ended| (ended.exit, ended.signal)) {
                Some((_, Some(signal))) => format!("was killed by signal {signal}"),
                Some((Some(code), _)) => format!("failed with code {code}"),
                _ => "did not run".to_owned(),
            };
            let said = said.strip_prefix("spry-runner: ").unwrap_or(said);
            return Err(failed(if said.is_empty() { format!("spry-runner {how}") } else { said.to_owned() }));
        }
    }
    CellOutput::read(&text(RUNNER_OUTPUT).ok_or_else(|| failed("spry-runner left no results"))?)
}
