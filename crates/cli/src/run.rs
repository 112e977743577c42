//! `spry run`: runs a scenario's cells on a machine, shows the figures, keeps them.

pub(crate) mod machines;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use spry_lab::Stop;
use spry_lab::results::directory::{Circumstances, Destination, Partial};
use spry_lab::results::execute::{Execution, Outcomes, Progress};
use spry_lab::results::machine::{CellError, Machine, scheduler_inputs};
use spry_lab::results::model::{Failure, Inputs, Measured, Results, digest_of};
use spry_lab::results::plan::{Cell, Plan};
use spry_lab::results::table;
use spry_workload::model::Scenario;

use crate::args::RunArgs;
use crate::exit::WithCode;
use crate::output::{self, say};
use crate::progress;
use crate::scenario::MISTAKE;
use crate::shipped::{self, Source};
use crate::stopping;

/// Where results are kept if nothing is said.
const RESULTS: &str = "results";

/// Runs a scenario.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let source = shipped::find(&args.scenario)?;
    let plan = Plan { schedulers: args.scheduler.clone(), vary: args.vary.clone(), seeds: args.seeds };
    let scenarios = expanded(&source, &plan)?;
    let job = Job { args, source: &source, scenarios: &scenarios, cells: plan.cells(), plan: &plan };
    let done = machines::with(&job, &stop, |machine, jobs, peers| execute(&job, machine, jobs, peers, &stop));
    // It may have been interrupted while the machine was being prepared.
    done.map_err(|error| stopping::told(error, &stop))
}

/// What is to be run.
pub(crate) struct Job<'a> {
    pub(crate) args: &'a RunArgs,
    pub(crate) source: &'a Source,
    /// The scenario with each combination of the variables' values.
    pub(crate) scenarios: &'a [Scenario],
    pub(crate) cells: Vec<Cell>,
    pub(crate) plan: &'a Plan,
}

/// The scenario with every combination of values: mistakes show before anything runs.
pub(crate) fn expanded(source: &Source, plan: &Plan) -> Result<Vec<Scenario>> {
    if let Some(twice) = plan.varied_twice() {
        let why = format!("--vary {twice} is given twice: name all its values in one, --vary {twice}=1,2");
        return Err(WithCode::wrap(MISTAKE, Error::msg(why)));
    }
    let combinations = plan.combinations();
    let scenarios = combinations.iter().map(|sets| Scenario::parse_with(&source.text, &source.name, sets));
    scenarios.collect::<Result<_, _>>().map_err(|mistake| WithCode::wrap(MISTAKE, Error::new(mistake)))
}

fn execute(job: &Job<'_>, machine: &dyn Machine, jobs: usize, peers: &Path, stop: &Stop) -> Result<ExitCode> {
    let destination = match &job.args.output {
        Some(dir) => Destination::Exactly(dir.clone()),
        None => Destination::Below(PathBuf::from(RESULTS)),
    };
    let partial = Partial::begin(destination)?;
    let traces = job.args.record.then(|| partial.subdirectory("traces")).transpose()?;
    let order = job.plan.order();
    let execution = Execution { cells: &job.cells, order: &order, jobs, traces: traces.as_deref() };
    let outcomes = {
        let shown = !job.args.playing.quiet && io::stderr().is_terminal();
        let bar = shown.then(|| progress::cells(job.cells.len()));
        let outcomes =
            execution.run(machine, stop, |progress| bar.iter().for_each(|bar| show(bar, &progress)));
        bar.inspect(ProgressBar::finish_and_clear);
        outcomes
    };
    let results = results(job, machine, peers, &outcomes)?;
    for failure in &results.failures {
        say!("spry: {}, seed {}: {}", name(failure), failure.seed, failure.error);
    }
    if job.args.json {
        output::print(&format!("{}\n", serde_json::to_string(&results)?))?;
    } else if !results.cells.is_empty() {
        output::print(&table::text(&results))?;
    }
    if stop.is_requested() {
        let (done, all) = (results.cells.len(), job.cells.len());
        say!("spry: interrupted after {done} of {all} cells; nothing is kept");
        return Ok(ExitCode::from(stopping::INTERRUPTED));
    }
    if !results.cells.is_empty() {
        keep(job, partial, &results, &outcomes)?;
    }
    Ok(if results.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn name(failure: &Failure) -> String {
    let load = spry_lab::results::model::load_words(&failure.vary);
    if load.is_empty() { failure.scheduler.clone() } else { format!("{}, {load}", failure.scheduler) }
}

fn show(bar: &ProgressBar, progress: &Progress) {
    let left = progress.left.as_secs();
    let left = if left < 100 { format!("{left} s") } else { format!("{} min", left.div_ceil(60)) };
    let failed = if progress.failed > 0 { format!(", {} failed", progress.failed) } else { String::new() };
    // By time: cells are few and long.
    let whole = (progress.elapsed + progress.left).as_millis().max(1);
    bar.set_length(whole as u64);
    bar.set_position(progress.elapsed.as_millis() as u64);
    bar.set_message(format!("{} of {} cells{failed}, about {left} left", progress.done, progress.cells));
}

fn results(job: &Job<'_>, machine: &dyn Machine, peers: &Path, outcomes: &Outcomes) -> Result<Results> {
    let mut cells = Vec::new();
    let mut failures = Vec::new();
    for (cell, outcome) in job.cells.iter().zip(outcomes) {
        match outcome {
            Some(Ok(output)) => cells.push(Measured::new(cell, output.metrics.clone())),
            Some(Err(CellError::Failed(error))) => failures.push(Failure::new(cell, error.clone())),
            Some(Err(CellError::Interrupted)) | None => {}
        }
    }
    let mut parts = machine.inputs();
    parts.insert("schedulers".to_owned(), scheduler_inputs(&job.cells, peers)?);
    let scenario = job.scenarios.first().context("there is always a combination")?;
    Ok(Results {
        scenario: scenario.name.clone(),
        measure: scenario.measure.clone(),
        machine: machine.name().to_owned(),
        kernel: machine.kernel(),
        digest: digest_of(&cells),
        inputs: Inputs::new(parts),
        cells,
        failures,
    })
}

fn keep(job: &Job<'_>, partial: Partial, results: &Results, outcomes: &Outcomes) -> Result<()> {
    partial.subdirectory("cells")?;
    let mut variables = Map::new();
    for (cell, outcome) in job.cells.iter().zip(outcomes) {
        let Some(Ok(output)) = outcome else { continue };
        let text = serde_json::to_string_pretty(&output.report)?;
        partial.write(&format!("cells/{}.json", cell.file_name()), text.as_bytes())?;
    }
    for variable in job.scenarios.iter().flat_map(|scenario| &scenario.variables) {
        variables.insert(variable.name.clone(), Value::from(variable.default.clone()));
    }
    let circumstances = Circumstances {
        file_name: job.source.file_name,
        scenario: job.source.text.clone(),
        command: std::env::args().collect(),
        notes: json!({ "spry": env!("CARGO_PKG_VERSION"), "defaults": variables, "kernel": job.args.playing.kernel }),
    };
    let place = partial.finish(results, &circumstances)?;
    let page = place.join("index.html");
    say!("spry: kept in {}; open {} for pictures", place.display(), page.display());
    Ok(())
}
