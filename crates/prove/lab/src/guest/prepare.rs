//! Prepares the virtual machine of an experiment: it has the parts that any of the cells needs.

use std::collections::{BTreeMap, BTreeSet};

use spry_experiment::scheduler::{SchedulerError, peers_directory};
use spry_experiment::{Experiment, Stop, programs};
use spry_runner::x11::{X11Error, files};
use spry_scenario::model::Scenario;

use super::{Guest, SPRY, topology};
use crate::build::Variant;
use crate::cache::digest_of_file;
use crate::error::LabError;
use crate::kernel::{Flavour, KernelChoice};
use crate::lab::{Lab, MachineSpec};
use crate::progress::Progress;

/// The reason why the lab cannot run an experiment.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The machine cannot be prepared, or its kernel cannot run under a scheduler.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A scheduler is not available.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// One of Spry's own programs is not where it belongs.
    #[error(transparent)]
    Program(#[from] programs::MissingProgram),
    /// A file that the scenario needs cannot be made.
    #[error(transparent)]
    File(#[from] X11Error),
    /// The scenario needs CPUs that the lab cannot have.
    #[error("{0}")]
    Topology(String),
    /// The cells need different kernels.
    #[error(
        "the kernel depends on what is varied: run each kernel by itself and compare them with `spry compare`"
    )]
    Kernels,
}

impl Guest {
    /// Prepares a machine for an experiment, with the parts that any of the cells needs. `kernel` is the name
    /// of a kernel; `None`: the scenario's own wish.
    ///
    /// # Errors
    /// If a part of the machine, a scheduler or a file is not available, or the cells cannot share a machine.
    pub fn prepare(
        lab: Lab,
        experiment: &Experiment,
        kernel: Option<&str>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Guest, GuestError> {
        let peers = peers_directory(lab.cache());
        let setups = experiment.cells().iter().map(|cell| cell.scheduler.setup(&peers));
        let setups = setups.collect::<Result<Vec<_>, _>>()?;
        let machine = lab.prepare(&spec(experiment, kernel)?, progress, stop)?;
        setups.iter().try_for_each(|setup| machine.check(setup))?;
        let mut names = vec!["spry-runner", "spry-guest"];
        let is_used = |scenario: &Scenario| scenario.programs().iter().any(|program| program == SPRY);
        names.extend((experiment.is_recorded() || experiment.scenarios().any(is_used)).then_some(SPRY));
        let mut programs = BTreeMap::new();
        for name in names {
            programs.insert(name.to_owned(), digest_of_file(&programs::own(name)?)?);
        }
        let mut files = BTreeMap::new();
        for name in experiment.scenarios().flat_map(Scenario::files) {
            let file = files::provide(&name, lab.cache())?;
            programs.insert(name.clone(), digest_of_file(&file)?);
            files.insert(name, file);
        }
        let clocks = experiment.scenarios().map(clock).collect();
        Ok(Guest { lab, machine, clocks, time: experiment.time(), peers, files, programs })
    }
}

/// The power of 2 for an instruction's time, and the number of CPUs, that a scenario sets.
fn clock(scenario: &Scenario) -> (u32, u32) {
    (scenario.machine.shift.unwrap_or(0), scenario.machine.cpus.unwrap_or(1))
}

/// The parts of the machine. They satisfy the scenario with all values of its variables.
fn spec(experiment: &Experiment, kernel: Option<&str>) -> Result<MachineSpec, GuestError> {
    let mut packages = BTreeSet::new();
    let mut sources = BTreeSet::new();
    let mut modules = BTreeSet::new();
    let mut kernels = Vec::new();
    for scenario in experiment.scenarios() {
        let machine = &scenario.machine;
        packages.extend(machine.packages.iter().cloned());
        sources.extend(scenario.sources());
        if machine.display.is_some() {
            packages.extend(machine.server.packages().iter().map(ToString::to_string));
            modules.extend(machine.server.modules().iter().map(ToString::to_string));
        }
        let kernel = match kernel {
            Some(name) => name.parse()?,
            None => wished(scenario)?,
        };
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
        topology(machine).map_err(GuestError::Topology)?;
    }
    if kernels.len() > 1 {
        return Err(GuestError::Kernels);
    }
    let kernel = kernels.pop().unwrap_or_default();
    let scratch_mib = experiment.scenarios().filter_map(|scenario| scenario.machine.ram_disk_mb).max();
    let is_generic = matches!(
        kernel,
        KernelChoice::Newest(Flavour::Generic)
            | KernelChoice::Stable(Flavour::Generic)
            | KernelChoice::Older(Flavour::Generic)
    );
    if is_generic {
        modules.insert("uinput".to_owned());
    }
    Ok(MachineSpec { kernel, packages, sources, modules, scratch_mib: scratch_mib.unwrap_or(0) })
}

/// The kernel that a scenario names.
fn wished(scenario: &Scenario) -> Result<KernelChoice, LabError> {
    let kernel = &scenario.machine.kernel;
    match (kernel.hz, kernel.flavour.as_deref()) {
        (Some(hz), _) => Ok(KernelChoice::Built(Variant::of(hz)?)),
        (None, None | Some("cloud")) => Ok(KernelChoice::default()),
        (None, Some("generic" | "amd64")) => Ok(KernelChoice::Newest(Flavour::Generic)),
        (None, Some("rt")) => Ok(KernelChoice::Newest(Flavour::Rt)),
        (None, Some(other)) => other.parse(),
    }
}
