//! The machines that `spry run` can be told to use, made ready.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use spry_lab::results::guest::{Guest, topology};
use spry_lab::results::host::{Host, StopRecording};
use spry_lab::results::machine::Machine;
use spry_lab::scheduler::peers_directory;
use spry_lab::{
    Cache, Event, Flavour, KernelChoice, Lab, LabOptions, MachineSpec, Record, Stop, digest_of_file,
};
use spry_recorder::Recorder;
use spry_trace::Group;
use spry_workload::model::Scenario;
use spry_workload::x11::files;

use super::Job;
use crate::args::MachineArg;
use crate::exit::WithCode;
use crate::scenario::MISTAKE;
use crate::steps::Steps;

/// What is recorded of a cell: what the analyses of delays and of frames need.
const GROUPS: [Group; 6] = [Group::Sched, Group::Timer, Group::Irq, Group::Resched, Group::Ipc, Group::Mark];
/// Memory that a virtual machine may take, bytes; fewer run side by side where there is less.
const VM_BYTES: u64 = 2 << 30;

/// Makes the machine ready that the job asks for, and gives it to `execute` with the number of cells that it may run
/// side by side, and with the directory of published schedulers.
pub(crate) fn with(
    job: &Job<'_>,
    stop: &Stop,
    execute: impl FnOnce(&dyn Machine, usize, &Path) -> Result<ExitCode>,
) -> Result<ExitCode> {
    match job.args.on {
        MachineArg::Host => host(job, execute),
        MachineArg::Lab => lab(job, stop, execute),
    }
}

/// How long a scenario runs at most, warm-up included.
fn time(scenarios: &[Scenario]) -> Duration {
    let all = scenarios.iter().map(|scenario| scenario.warmup_ns + scenario.duration_ns);
    Duration::from_nanos(all.max().unwrap_or(0))
}

fn host(
    job: &Job<'_>,
    execute: impl FnOnce(&dyn Machine, usize, &Path) -> Result<ExitCode>,
) -> Result<ExitCode> {
    if job.args.playing.kernel.is_some() {
        bail!("--kernel is for the lab: this machine runs the kernel that it runs");
    }
    let peers = peers_directory(&Cache::default_root());
    let start = |trace: &Path| start_recording(trace).map_err(|error| format!("{error:#}"));
    let host = Host {
        runner: own_program("spry-runner")?,
        file_name: job.source.file_name,
        text: job.source.text.clone(),
        cpus: job.scenarios.iter().map(|scenario| scenario.machine.cpus).max().flatten(),
        time: time(job.scenarios),
        peers: peers.clone(),
        record: if job.args.record { Some(&start) } else { None },
    };
    host.check(&job.cells)?;
    if job.args.playing.jobs.is_some_and(|jobs| jobs > 1) {
        bail!("on the host cells run one after another: side by side they would measure each other");
    }
    execute(&host, 1, &peers)
}

fn start_recording(trace: &Path) -> Result<StopRecording> {
    let recording = Recorder::builder().groups(GROUPS.into_iter().collect()).start_into(trace)?;
    Ok(Box::new(move || recording.stop().map(drop).map_err(|error| error.to_string())))
}

fn lab(
    job: &Job<'_>,
    stop: &Stop,
    execute: impl FnOnce(&dyn Machine, usize, &Path) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let lab = Lab::open(LabOptions::default())?;
    let peers = peers_directory(lab.cache());
    let setups = job.cells.iter().map(|cell| cell.scheduler.setup(&peers)).collect::<Result<Vec<_>, _>>()?;
    let spec = spec(job)?;
    let machine = {
        let steps = if job.args.playing.quiet { Steps::hidden() } else { Steps::new() };
        lab.prepare(&spec, &|event: Event<'_>| steps.show(event), stop)?
    };
    setups.iter().try_for_each(|setup| machine.check(setup))?;
    let mut names = vec!["spry-runner", "spry-guest"];
    names.extend(job.args.record.then_some("spry"));
    let mut programs = BTreeMap::new();
    for name in names {
        programs.insert(name.to_owned(), digest_of_file(&own_program(name)?)?);
    }
    let mut files = BTreeMap::new();
    for name in job.scenarios.iter().flat_map(Scenario::files) {
        let file = files::provide(&name, lab.cache())?;
        programs.insert(name.clone(), digest_of_file(&file)?);
        files.insert(name, file);
    }
    let groups: Vec<String> = GROUPS.iter().map(|group| group.name().to_owned()).collect();
    let guest = Guest {
        lab: &lab,
        machine: &machine,
        file_name: job.source.file_name,
        text: job.source.text.clone(),
        clocks: job.scenarios.iter().map(clock).collect(),
        time: time(job.scenarios),
        peers: peers.clone(),
        record: job.args.record.then_some(Record { groups }),
        files,
        programs,
    };
    let jobs = job.args.playing.jobs.map_or_else(side_by_side, usize::from).min(job.cells.len());
    execute(&guest, jobs, &peers)
}

/// The power for an instruction's time, and how many CPUs there are.
fn clock(scenario: &Scenario) -> (u32, u32) {
    (scenario.machine.shift.unwrap_or(0), scenario.machine.cpus.unwrap_or(1))
}

/// What the virtual machine is made of: the wishes of the scenario, whichever values its variables have.
fn spec(job: &Job<'_>) -> Result<MachineSpec> {
    let mut packages = BTreeSet::new();
    let mut modules = BTreeSet::new();
    let mut kernels = Vec::new();
    for scenario in job.scenarios {
        let machine = &scenario.machine;
        packages.extend(machine.packages.iter().cloned());
        if machine.display.is_some() {
            packages.extend(machine.server.packages().iter().map(ToString::to_string));
            modules.extend(machine.server.modules().iter().map(ToString::to_string));
        }
        let kernel = match &job.args.playing.kernel {
            Some(name) => name.parse()?,
            None => wished(scenario)?,
        };
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
        topology(machine).map_err(|why| WithCode::wrap(MISTAKE, Error::msg(why)))?;
    }
    if kernels.len() > 1 {
        bail!(
            "the kernel depends on what is varied: run each kernel by itself and compare them with `spry compare`"
        );
    }
    let kernel = kernels.pop().context("there is always a combination")?;
    let scratch_mib =
        job.scenarios.iter().filter_map(|scenario| scenario.machine.ram_disk_mb).max().unwrap_or(0);
    let is_generic =
        matches!(kernel, KernelChoice::Newest(Flavour::Generic) | KernelChoice::Stable(Flavour::Generic));
    if is_generic {
        modules.insert("uinput".to_owned());
    }
    Ok(MachineSpec { kernel, packages, modules, scratch_mib })
}

/// The kernel that a scenario wishes for.
fn wished(scenario: &Scenario) -> Result<KernelChoice> {
    let kernel = &scenario.machine.kernel;
    match (kernel.hz, kernel.flavour.as_deref()) {
        (Some(hz), _) => Ok(KernelChoice::Built { hz }),
        (None, None | Some("cloud")) => Ok(KernelChoice::default()),
        (None, Some("generic" | "amd64")) => Ok(KernelChoice::Newest(Flavour::Generic)),
        (None, Some("rt")) => Ok(KernelChoice::Newest(Flavour::Rt)),
        (None, Some(other)) => Ok(other.parse()?),
    }
}

/// As many as there are CPUs, and memory for.
pub(crate) fn side_by_side() -> usize {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let free_kib: Option<u64> = free.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    let fit = free_kib.map_or(cpus, |kib| (kib * 1024 / VM_BYTES) as usize);
    cpus.min(fit).max(1)
}

/// One of Spry's programs: beside this one, or on the path.
pub(crate) fn own_program(name: &str) -> Result<PathBuf> {
    let own = env::current_exe().context("cannot tell where this program is")?;
    let path = env::var_os("PATH").unwrap_or_default();
    let places = own.parent().map(Path::to_owned).into_iter().chain(env::split_paths(&path));
    let found = places.map(|dir| dir.join(name)).find(|program| program.is_file());
    found.with_context(|| {
        format!("{name} is neither beside spry nor on the path: build the whole workspace (`cargo build --release`)")
    })
}
