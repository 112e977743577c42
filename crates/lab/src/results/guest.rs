//! The laboratory as a machine: each cell a virtual machine that begins again from memory and repeats exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use spry_workload::model::{self as scenario, CacheWish, Scenario};
use spry_workload::x11::files::DIRECTORY_VARIABLE;

use super::machine::{CellError, CellOutput, Machine, setup};
use super::plan::Cell;
use crate::cache::digest_of;
use crate::error::LabError;
use crate::job::{FileSource, Job, Outcome, Record, TRACE};
use crate::lab::{Lab, LabMachine, model_of_time};
use crate::progress::{Event, Stop};
use crate::protocol::GuestCommand;
use crate::topology::{CPUS_MAX, CacheSharing, CacheSizes, Topology};

/// What the runner may take of the guest's time beyond the scenario's own, seconds.
const OVERHEAD_S: u32 = 180;
/// Real time for a second of the guest's, roughly; better known after the first cell.
const REAL_PER_GUEST: f64 = 0.8;
/// The guest's time before the scenario and after it, seconds.
const AROUND_S: f64 = 3.0;

/// What is run in the laboratory.
#[derive(Debug)]
pub struct Guest<'a> {
    /// The laboratory.
    pub lab: &'a Lab,
    /// Its kernel and image, prepared.
    pub machine: &'a LabMachine,
    /// The scenario's file name; its ending says its format.
    pub file_name: &'static str,
    /// The scenario's text.
    pub text: String,
    /// Each combination of powers for an instruction's time and numbers of CPUs that the cells have.
    pub clocks: BTreeSet<(u32, u32)>,
    /// How long the scenario runs, warm-up included.
    pub time: Duration,
    /// Where published schedulers are.
    pub peers: PathBuf,
    /// How cells are recorded, if they are.
    pub record: Option<Record>,
    /// Generated files that the scenario works on, by their names.
    pub files: BTreeMap<String, PathBuf>,
    /// The hashes of Spry's own programs and of the generated files.
    pub programs: BTreeMap<String, String>,
}

impl Machine for Guest<'_> {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn kernel(&self) -> String {
        self.machine.kernel.release.clone()
    }

    fn inputs(&self) -> BTreeMap<String, Value> {
        let hashes = self.machine.inputs().into_iter().chain(self.programs.clone());
        let mut parts: BTreeMap<String, Value> = hashes.map(|(name, hash)| (name, json!(hash))).collect();
        parts.insert("scenario".to_owned(), json!(digest_of(self.text.as_bytes())));
        parts.insert("record".to_owned(), json!(self.record.is_some()));
        let times = self.clocks.iter().map(|&(shift, cpus)| model_of_time(shift, cpus));
        parts.insert("time".to_owned(), json!(times.collect::<Vec<_>>().join("; ")));
        parts
    }

    fn cell_time(&self) -> Duration {
        Duration::from_secs_f64((self.time.as_secs_f64() + AROUND_S) * REAL_PER_GUEST)
    }

    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
        let job = self.job(cell)?;
        let outcome =
            self.lab.run(self.machine, &job, &|_: Event<'_>| {}, stop).map_err(|error| match error {
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

impl Guest<'_> {
    /// What the virtual machine does for a cell. Machine wishes may depend on what is varied.
    fn job(&self, cell: &Cell) -> Result<Job, CellError> {
        let scenario = Scenario::parse_with(&self.text, self.file_name, &cell.sets).map_err(failed)?;
        let setup = setup(cell, &scenario, &self.peers)?;
        let shift = scenario.machine.shift.unwrap_or(0);
        let path = format!("/spry/{}", self.file_name);
        let mut files = BTreeMap::from([(path.clone(), FileSource::Bytes(self.text.clone().into_bytes()))]);
        for (name, file) in &self.files {
            files.insert(format!("{FILES}/{name}"), FileSource::File(file.clone()));
        }
        let mut argv: Vec<String> = ["spry-runner", "run", "--scenario", &path].map(str::to_owned).into();
        for (key, value) in &cell.sets {
            argv.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        argv.extend(["--seed".to_owned(), cell.seed.to_string()]);
        argv.extend(["--work".to_owned(), format!("instructions:{shift}")]);
        if let Some(class) = setup.class {
            argv.extend(["--class".to_owned(), class.runner_argument().to_owned()]);
        }
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
            record: self.record.clone(),
            files,
            commands: vec![GuestCommand { argv, env, limit_s: time_s + OVERHEAD_S }],
            ..Job::default()
        })
    }
}

/// The CPUs that a scenario wishes for.
///
/// # Errors
/// Where the lab has not so many, or they do not fill the topology.
pub fn topology(machine: &scenario::Machine) -> Result<Topology, String> {
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

/// Where generated files are in the guest.
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
