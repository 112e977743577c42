//! Runs the cells of the thesis' figures, on any machine that records.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_experiment::{Cell, CellError, Execution, Experiment, Machine, Progress, Recording, Source, Stop};

use crate::analysed::AnalysingMachine;
use crate::application::Application;
use crate::directory::Directory;
use crate::error::Error;
use crate::plan::Request;
use crate::study::Study;

/// The source of a study's scenarios and machines. Errors are in words.
pub trait Ground {
    /// The scenario of this name.
    ///
    /// # Errors
    /// If there is no such scenario.
    fn source(&self, scenario: &str) -> Result<Source, String>;

    /// A machine on which this experiment can run, with its traces.
    ///
    /// # Errors
    /// If the machine cannot be prepared.
    fn machine(&self, experiment: &Experiment) -> Result<Box<dyn Machine>, String>;
}

/// The progress of a study.
#[derive(Clone, Copy, Debug)]
pub enum ApplicationProgress {
    /// The cells of an application begin.
    Begins {
        /// The application.
        application: &'static Application,
        /// How many cells of the application are run.
        cells: usize,
        /// How many cells of the application are kept from an earlier run.
        kept: usize,
    },
    /// Cells were run.
    Cells {
        /// The application to which the cells belong.
        application: &'static Application,
        /// How many cells of the study are done.
        done: usize,
        /// The estimated time until the end of the study.
        left: Duration,
    },
}

/// The results of all cells.
#[derive(Debug)]
pub struct Tally {
    /// The cells that were measured.
    pub study: Study,
    /// The number of all cells.
    pub planned: usize,
    /// The cells that failed, each with its error.
    pub failures: Vec<(String, String)>,
    /// The inputs of the cells, by the application's key.
    pub inputs: BTreeMap<String, BTreeMap<String, Value>>,
    /// The kind of machine; empty before the first machine was prepared.
    pub machine: &'static str,
    /// The kernel's release; empty before the first machine was prepared.
    pub kernel: String,
}

/// Measures every application beside its loads under every scheduler, until all is done or `stop` is set.
/// Cells with values in the directory are not run again. If the machine of an application cannot be prepared,
/// its cells have failed, and the other applications are still measured.
///
/// # Errors
/// If a scenario does not fit the study, a scheduler is not available, or the results cannot be written.
pub fn measure(
    request: &Request,
    ground: &dyn Ground,
    directory: &Directory,
    stop: &Stop,
    tell: &mut dyn FnMut(ApplicationProgress),
) -> Result<Tally, Error> {
    let study = Study {
        schedulers: request.schedulers.iter().map(|scheduler| scheduler.label()).collect(),
        stressers: request.loads.all(),
        cpus: request.cpus,
        cells: Vec::new(),
    };
    let planned = request.cells();
    let (failures, inputs, kernel) = (Vec::new(), BTreeMap::new(), String::new());
    let tally = Tally { study, planned, failures, inputs, machine: "", kernel };
    let meter = Meter { began: Instant::now(), all: planned, before: 0, ran: 0 };
    let mut measuring = Measurer { request, ground, directory, stop, tell, tally, meter };
    for application in &request.applications {
        if stop.is_requested() {
            break;
        }
        measuring.application(application)?;
    }
    directory.remove_empty("traces")?;
    Ok(measuring.tally)
}

/// Measures one application after another.
struct Measurer<'a> {
    request: &'a Request,
    ground: &'a dyn Ground,
    directory: &'a Directory,
    stop: &'a Stop,
    tell: &'a mut dyn FnMut(ApplicationProgress),
    tally: Tally,
    meter: Meter,
}

impl Measurer<'_> {
    fn application(&mut self, application: &'static Application) -> Result<(), Error> {
        let source = self.ground.source(application.scenario).map_err(Error::Scenario)?;
        let experiment = Experiment::new(source, self.request.plan(application), Recording::EachCell)?;
        let done = match self.ground.machine(&experiment) {
            Ok(machine) => self.cells(application, &experiment, machine.as_ref()),
            Err(_) if self.stop.is_requested() => Ok(()),
            Err(error) => {
                let failed = |cell: &Cell| (named(application, cell), error.clone());
                self.tally.failures.extend(experiment.cells().iter().map(failed));
                Ok(())
            }
        };
        self.meter.before += experiment.cells().len();
        done
    }

    /// Runs the cells without results of an earlier run.
    fn cells(
        &mut self,
        application: &'static Application,
        experiment: &Experiment,
        machine: &dyn Machine,
    ) -> Result<(), Error> {
        (self.tally.machine, self.tally.kernel) = (machine.name(), machine.kernel());
        let mut parts = experiment.inputs(machine);
        parts.insert("schedulers".to_owned(), experiment.schedulers(machine)?);
        self.tally.inputs.insert(application.key.to_owned(), parts);
        let directory = self.directory;
        let traces = self.request.traces;
        let analysed = AnalysingMachine { machine, experiment, application, directory, traces };
        let traces = directory.subdirectory(&format!("traces/{}", application.key))?;
        let mut left = Vec::new();
        for at in experiment.order() {
            let cell = &experiment.cells()[at];
            match directory.kept(&analysed.name(cell), &analysed.inputs(cell)?) {
                Some(cell) => self.tally.study.cells.push(cell),
                None => left.push(cell.clone()),
            }
        }
        let order: Vec<usize> = (0..left.len()).collect();
        let cells = experiment.cells().len();
        let jobs = self.request.jobs.unwrap_or_else(|| machine.side_by_side()).min(cells);
        let execution = Execution { cells: &left, order: &order, jobs, traces: Some(&traces) };
        let kept = cells - left.len();
        (self.tell)(ApplicationProgress::Begins { application, cells: left.len(), kept });
        let outcomes = execution.run(&analysed, self.stop, |progress| {
            let done = self.meter.before + kept + progress.done;
            let left = self.meter.left(&progress, self.meter.all.saturating_sub(done));
            (self.tell)(ApplicationProgress::Cells { application, done, left });
        });
        for (cell, outcome) in left.iter().zip(outcomes) {
            match outcome {
                Some(Ok(_)) => {
                    let kept = directory.kept(&analysed.name(cell), &analysed.inputs(cell)?);
                    self.tally.study.cells.push(kept.ok_or(Error::Gone)?);
                }
                Some(Err(CellError::Failed(error))) => {
                    self.tally.failures.push((named(application, cell), error));
                }
                Some(Err(CellError::Interrupted)) | None => {}
            }
        }
        self.meter.ran += left.len();
        directory.remove_empty(&format!("traces/{}", application.key))
    }
}

/// A cell's name in messages.
fn named(application: &Application, cell: &Cell) -> String {
    format!("{}, {}", application.name, cell.name())
}

/// The progress over all cells.
struct Meter {
    began: Instant,
    all: usize,
    /// The number of cells of the preceding applications, measured now or kept from an earlier run; and the
    /// number of cells measured now.
    before: usize,
    ran: usize,
}

impl Meter {
    /// The estimated time until the end, if each remaining cell takes as long as the measured cells.
    fn left(&self, progress: &Progress, left: usize) -> Duration {
        let ran = self.ran + progress.done;
        if ran == 0 {
            let each = (progress.elapsed + progress.left) / progress.cells.max(1) as u32;
            return each * left as u32;
        }
        self.began.elapsed() / ran as u32 * left as u32
    }
}
