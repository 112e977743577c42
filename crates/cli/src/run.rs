//! The command `spry run`: runs a scenario's cells on a machine, shows the results, and keeps them.

pub(crate) mod machines;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Error, Result};
use indicatif::ProgressBar;
use spry_experiment::directory::{Destination, PartialDirectory};
use spry_experiment::model::{self, Failure};
use spry_experiment::{Execution, Experiment, Machine, Plan, PlanError, Progress, Recording, Stop, table};

use crate::args::{MachineArg, RunArgs};
use crate::exit::CodedError;
use crate::output::{self, say};
use crate::progress;
use crate::scenario::MISTAKE;
use crate::shipped;
use crate::stopping;

/// The directory for results if the user names no other.
const RESULTS: &str = "results";

/// Runs a scenario with all cells of its plan.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let source = shipped::find(&args.scenario)?;
    let plan = Plan { schedulers: args.scheduler.clone(), vary: args.vary.clone(), seeds: args.seeds };
    let recording = if args.record { Recording::EachCell } else { Recording::Never };
    let experiment = Experiment::new(source, plan, recording).map_err(mistake)?;
    let machine: Result<Box<dyn Machine>> = match args.on {
        MachineArg::Host => machines::host(&experiment, &args.playing, &stop),
        MachineArg::Lab => machines::lab(&experiment, &args.playing, &stop),
    };
    let done = machine.and_then(|machine| execute(args, &experiment, machine.as_ref(), &stop));
    // The user may have interrupted while the machine was being prepared. The error then reports that.
    done.map_err(|error| stopping::told(error, &stop))
}

/// Gives a mistake in a plan or its scenario its exit code.
fn mistake(error: PlanError) -> Error {
    CodedError::wrap(MISTAKE, Error::new(error))
}

fn execute(args: &RunArgs, experiment: &Experiment, machine: &dyn Machine, stop: &Stop) -> Result<ExitCode> {
    let destination = match &args.output {
        Some(dir) => Destination::Exactly(dir.clone()),
        None => Destination::Below(PathBuf::from(RESULTS)),
    };
    let partial = PartialDirectory::begin(destination)?;
    let traces = args.record.then(|| partial.subdirectory("traces")).transpose()?;
    let (cells, order) = (experiment.cells(), experiment.order());
    let jobs = machines::jobs(&args.playing, machine, cells.len());
    let execution = Execution { cells, order: &order, jobs, traces: traces.as_deref() };
    let outcomes = {
        let shown = !args.playing.quiet && io::stderr().is_terminal();
        let bar = shown.then(|| progress::cells(cells.len()));
        let outcomes =
            execution.run(machine, stop, |progress| bar.iter().for_each(|bar| show(bar, &progress)));
        bar.inspect(ProgressBar::finish_and_clear);
        outcomes
    };
    let results = experiment.results(machine, &outcomes)?;
    for failure in &results.failures {
        say!("spry: {}, seed {}: {}", name(failure), failure.seed, failure.error);
    }
    if args.json {
        output::print(&format!("{}\n", serde_json::to_string(&results)?))?;
    } else if !results.cells.is_empty() {
        output::print(&table::text(&results))?;
    }
    if stop.is_requested() {
        let (done, all) = (results.cells.len(), cells.len());
        say!("spry: interrupted after {done} of {all} cells; nothing is kept");
        return Ok(ExitCode::from(stopping::INTERRUPTED));
    }
    if !results.cells.is_empty() {
        let (command, kernel) = (std::env::args().collect(), args.playing.kernel.as_deref());
        let place = experiment.keep(partial, &results, &outcomes, command, kernel)?;
        let page = place.join("index.html");
        say!("spry: kept in {}; open {} for pictures", place.display(), page.display());
    }
    Ok(if results.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn name(failure: &Failure) -> String {
    let load = model::load_words(&failure.vary);
    if load.is_empty() { failure.scheduler.clone() } else { format!("{}, {load}", failure.scheduler) }
}

fn show(bar: &ProgressBar, progress: &Progress) {
    let left = spry_page::words::left(progress.left.as_secs());
    let failed = if progress.failed > 0 { format!(", {} failed", progress.failed) } else { String::new() };
    // The bar shows time, not cells, because there are few cells and each takes long.
    let whole = (progress.elapsed + progress.left).as_millis().max(1);
    bar.set_length(whole as u64);
    bar.set_position(progress.elapsed.as_millis() as u64);
    bar.set_message(format!("{} of {} cells{failed}, about {left} left", progress.done, progress.cells));
}
