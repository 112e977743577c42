//! The commands `spry reproduce scheduler-latency`, `time-sensitive` and `clock-resolution`: studies that are
//! made of boots of the lab.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use spry_experiment::Stop;
use spry_lab::{Event, Lab, LabOptions};
use spry_reproduce::BootStudy;
use spry_reproduce::directory::Directory;

use super::meter::Meter;
use super::{coded, interrupted};
use crate::args::BootsArgs;
use crate::output::{self, say};
use crate::steps::Steps;
use crate::stopping;

/// Runs the cells that have no results kept from an earlier run, and prints the results of all cells.
pub fn run<S: BootStudy>(request: &S::Request, place: &Path, how: &BootsArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let directory = Directory::open(place, S::NAME).map_err(coded)?;
    let study: S = prepared(request, how, &stop).map_err(|error| stopping::told(error, &stop))?;
    let mut meter = Meter::new(how.quiet);
    let (cells, undone) = study.measure(request, &directory, &stop, &mut |told| meter.show(told, S::name));
    meter.end();
    let is_interrupted = stop.is_requested();
    if cells.is_empty() {
        if is_interrupted {
            say!("spry: interrupted before any cell was done");
            return Ok(ExitCode::from(stopping::INTERRUPTED));
        }
        bail!("no cell has figures");
    }
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let (done, all) = (cells.len(), cells.len() + undone.failures.len() + undone.missing);
    let written = study.write(request, &directory, (cells, &undone), &command).map_err(coded)?;
    output::print(if how.json { &written.results } else { &written.summary })?;
    if is_interrupted {
        return Ok(interrupted(done, all, place));
    }
    if !how.quiet {
        say!("spry: {done} of {all} cells; open {}/index.html", place.display());
    }
    Ok(if undone.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The lab with the study's machines. The steps of fetching and building are shown.
fn prepared<S: BootStudy>(request: &S::Request, how: &BootsArgs, stop: &Stop) -> Result<S> {
    let lab = Lab::open(LabOptions::default())?;
    let steps = if how.quiet { Steps::hidden() } else { Steps::new() };
    S::open(request, lab, &|event: Event<'_>| steps.show(event), stop).map_err(coded)
}
