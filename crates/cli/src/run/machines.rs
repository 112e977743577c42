//! Prepares the machines that `spry run` can use.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Error, Result, bail};
use spry_experiment::scheduler::peers_directory;
use spry_experiment::{Experiment, Machine, Stop};
use spry_host::Host;
use spry_lab::{Archive, Cache, Event, Guest, GuestError, Lab, LabOptions};
use spry_scenario::kinds::SOURCES_VARIABLE;
use spry_scenario::model::Scenario;

use crate::args::CellArgs;
use crate::exit::CodedError;
use crate::scenario::MISTAKE;
use crate::steps::Steps;

/// This machine, prepared for an experiment.
pub(crate) fn host(experiment: &Experiment, playing: &CellArgs, stop: &Stop) -> Result<Box<dyn Machine>> {
    if playing.kernel.is_some() {
        bail!("--kernel is for the lab: this machine runs the kernel that it runs");
    }
    if playing.shake.is_some() {
        bail!("--shake is for the lab: on this machine each run is another draw anyway");
    }
    let sources = sources(experiment, playing, stop)?;
    let host = Host::prepare(experiment, peers_directory(&Cache::default_root()), sources)?;
    if playing.jobs.is_some_and(|jobs| jobs > 1) {
        bail!("on the host cells run one after another: side by side they would measure each other");
    }
    Ok(Box::new(host))
}

/// The directory with the source packages that the experiment's tasks compile. They are fetched, unless the
/// environment names a directory that has them.
fn sources(experiment: &Experiment, playing: &CellArgs, stop: &Stop) -> Result<Option<PathBuf>> {
    let names: BTreeSet<String> = experiment.scenarios().flat_map(Scenario::sources).collect();
    let is_given = std::env::var_os(SOURCES_VARIABLE).is_some_and(|value| !value.is_empty());
    if names.is_empty() || is_given {
        return Ok(None);
    }
    let steps = steps(playing);
    let cache = Cache::open(&Cache::default_root())?;
    let trees =
        Archive::open(&cache, None)?.source_trees(&names, &|event: Event<'_>| steps.show(event), stop);
    Ok(Some(trees.context("the source that is compiled cannot be fetched")?))
}

fn steps(playing: &CellArgs) -> Steps {
    if playing.quiet { Steps::hidden() } else { Steps::new() }
}

/// The lab's machine, prepared for an experiment. The steps of fetching and building are shown.
pub(crate) fn lab(experiment: &Experiment, playing: &CellArgs, stop: &Stop) -> Result<Box<dyn Machine>> {
    let lab = Lab::open(LabOptions { shake_bytes: playing.shake, ..LabOptions::default() })?;
    let steps = steps(playing);
    let show = |event: Event<'_>| steps.show(event);
    match Guest::prepare(lab, experiment, playing.kernel.as_deref(), &show, stop) {
        Ok(guest) => Ok(Box::new(guest)),
        Err(error @ GuestError::Topology(_)) => Err(CodedError::wrap(MISTAKE, Error::new(error))),
        Err(error) => Err(error.into()),
    }
}

/// How many of these cells run side by side: as many as the user asked for, or as the machine can.
pub(crate) fn jobs(playing: &CellArgs, machine: &dyn Machine, cells: usize) -> usize {
    playing.jobs.map_or_else(|| machine.side_by_side(), usize::from).min(cells)
}
