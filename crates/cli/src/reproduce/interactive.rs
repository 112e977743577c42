//! The command `spry reproduce interactive`: the thesis' figures.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Error, Result, bail};
use indicatif::ProgressBar;
use spry_experiment::scheduler::peers_directory;
use spry_experiment::{Experiment, Machine, Source, Stop};
use spry_lab::Cache;
use spry_page::words;
use spry_reproduce::cells::{ApplicationProgress, Ground, Tally, measure};
use spry_reproduce::directory::Directory;
use spry_reproduce::plan::Request;
use spry_reproduce::write;

use super::{coded, interrupted};
use crate::args::{CellArgs, InteractiveArgs};
use crate::exit::CodedError;
use crate::output::{self, say};
use crate::progress;
use crate::run::machines;
use crate::scenario::MISTAKE;
use crate::shipped;
use crate::stopping;

/// Measures the cells that have no values kept from an earlier run, and shows the figures.
pub fn run(args: &InteractiveArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    check_schedulers(args)?;
    let directory = Directory::open(&args.output, "interactive").map_err(coded)?;
    let request = args.request();
    let meter = Meter::new(args, request.cells());
    let ground = LabGround { playing: &args.playing, stop: &stop };
    let tally = measure(&request, &ground, &directory, &stop, &mut |told| meter.show(told));
    meter.bar.iter().for_each(ProgressBar::finish_and_clear);
    told(args, &request, &directory, &tally.map_err(coded)?, &stop)
}

/// Checks the schedulers' names and settings before anything runs.
fn check_schedulers(args: &InteractiveArgs) -> Result<()> {
    let peers = peers_directory(&Cache::default_root());
    for (at, scheduler) in args.scheduler.iter().enumerate() {
        if args.scheduler[..at].contains(scheduler) {
            let twice = format!("--scheduler {scheduler} is named twice");
            return Err(CodedError::wrap(MISTAKE, Error::msg(twice)));
        }
        scheduler.setup(&peers).with_context(|| format!("--scheduler {scheduler}"))?;
    }
    Ok(())
}

/// The scenarios that come with Spry, and the lab's machines.
struct LabGround<'a> {
    playing: &'a CellArgs,
    stop: &'a Stop,
}

impl Ground for LabGround<'_> {
    fn source(&self, scenario: &str) -> Result<Source, String> {
        shipped::find(Path::new(scenario)).map_err(|error| format!("{error:#}"))
    }

    fn machine(&self, experiment: &Experiment) -> Result<Box<dyn Machine>, String> {
        machines::lab(experiment, self.playing, self.stop).map_err(|error| format!("{error:#}"))
    }
}

/// Shows the progress of the study.
struct Meter {
    bar: Option<ProgressBar>,
    /// Whether progress is printed in lines if there is no terminal for a bar.
    lines: bool,
    all: usize,
}

impl Meter {
    fn new(args: &InteractiveArgs, all: usize) -> Meter {
        let shown = !args.playing.quiet && io::stderr().is_terminal();
        Meter { bar: shown.then(|| progress::cells(all)), lines: !args.playing.quiet && !shown, all }
    }

    fn show(&self, told: ApplicationProgress) {
        match (told, &self.bar) {
            (ApplicationProgress::Begins { application, cells, kept }, _) if self.lines && cells > 0 => {
                let kept = if kept > 0 { format!(", {kept} are there already") } else { String::new() };
                say!("spry: {}: {cells} cells{kept}", application.name);
            }
            (ApplicationProgress::Cells { application, done, left }, Some(bar)) => {
                let (all, left) = (self.all, words::left(left.as_secs()));
                bar.set_length(all as u64);
                bar.set_position(done as u64);
                bar.set_message(format!("{}: {done} of {all} cells, about {left} left", application.name));
            }
            (ApplicationProgress::Begins { .. } | ApplicationProgress::Cells { .. }, _) => {}
        }
    }
}

/// Writes the figures of the cells that were measured, and prints which cells failed.
fn told(
    args: &InteractiveArgs,
    request: &Request,
    directory: &Directory,
    tally: &Tally,
    stop: &Stop,
) -> Result<ExitCode> {
    for (cell, error) in &tally.failures {
        say!("spry: {cell}: {error}");
    }
    let is_interrupted = stop.is_requested();
    if tally.study.cells.is_empty() {
        if is_interrupted {
            say!("spry: interrupted before any cell was done");
            return Ok(ExitCode::from(stopping::INTERRUPTED));
        }
        bail!("no cell has figures");
    }
    let written = write(directory, request, tally, std::env::args().collect()).map_err(coded)?;
    output::print(if args.json { &written.results } else { &written.summary })?;
    let (done, all) = (tally.study.cells.len(), tally.planned);
    if is_interrupted {
        return Ok(interrupted(done, all, &args.output));
    }
    if io::stderr().is_terminal() || !args.playing.quiet {
        say!("spry: {done} of {all} cells; open {}/index.html", args.output.display());
    }
    Ok(if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
