//! A machine that turns its cells into values for the figures: it analyses each trace as soon as
//! the trace exists.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use spry_analysis::{Progress as Wants, TraceTotals};
use spry_experiment::scheduler::{SchedulerError, SchedulerSpec};
use spry_experiment::{Cell, CellError, CellOutput, Experiment, Machine, Stop, digest};
use spry_trace::Reader;

use crate::application::Application;
use crate::directory::{Directory, KeptCell};
use crate::error::Error;
use crate::measurement::{Frames, MeasuredTime, Measurement, engine};
use crate::plan::Traces;
use crate::study;

/// A machine that takes the values for the figures from each cell's trace, keeps these values, and
/// removes the trace.
pub(crate) struct AnalysingMachine<'a> {
    pub machine: &'a dyn Machine,
    pub experiment: &'a Experiment,
    pub application: &'static Application,
    pub directory: &'a Directory,
    pub traces: Traces,
}

impl AnalysingMachine<'_> {
    /// The name of the file with the values of a cell.
    pub fn name(&self, cell: &Cell) -> String {
        format!("{}-{}", self.application.key, cell.file_name())
    }

    /// The hash of everything on which the values of a cell depend.
    ///
    /// # Errors
    /// If the scheduler is not available.
    pub fn inputs(&self, cell: &Cell) -> Result<String, Error> {
        let scheduler = BTreeMap::from([(&cell.label, self.machine.scheduler(&cell.scheduler)?)]);
        let inputs = json!({
            "machine": self.experiment.inputs(self.machine),
            "scheduler": [cell.scheduler.to_string(), scheduler],
            "sets": cell.sets,
            "seed": cell.seed,
        });
        Ok(digest::of_json(&inputs))
    }

    fn keep(&self, cell: &Cell, trace: &Path, output: &CellOutput) -> Result<(), Error> {
        let stressers = cell.sets.iter().find(|(key, _)| key == "stressers");
        let stressers = stressers.and_then(|(_, value)| value.parse().ok()).ok_or(Error::Load)?;
        let measured = study::Cell {
            scheduler: cell.label.clone(),
            application: self.application.key.to_owned(),
            stressers,
            seed: cell.seed,
            measurement: measure(trace, self.application, &output.report)?,
        };
        self.directory.keep(&self.name(cell), &KeptCell { inputs: self.inputs(cell)?, cell: measured })
    }
}

impl Machine for AnalysingMachine<'_> {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn kernel(&self) -> String {
        self.machine.kernel()
    }

    fn inputs(&self) -> BTreeMap<String, Value> {
        self.machine.inputs()
    }

    fn scheduler(&self, scheduler: &SchedulerSpec) -> Result<String, SchedulerError> {
        self.machine.scheduler(scheduler)
    }

    fn cell_time(&self) -> Duration {
        self.machine.cell_time()
    }

    fn side_by_side(&self) -> usize {
        self.machine.side_by_side()
    }

    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError> {
        let failed = |error: Error| CellError::Failed(error.in_full());
        let trace = trace.ok_or_else(|| CellError::Failed("it is not recorded".to_owned()))?;
        let output = self.machine.run(cell, Some(trace), stop)?;
        let kept = self.keep(cell, trace, &output);
        if self.traces == Traces::Removed {
            fs::remove_file(trace).map_err(|error| failed(Error::TraceFile(error)))?;
        }
        kept.map_err(failed)?;
        Ok(output)
    }
}

/// Measures an application by a trace, over the measured time of its scenario.
fn measure(trace: &Path, application: &Application, report: &Value) -> Result<Measurement, Error> {
    let measured = MeasuredTime::read(report).ok_or(Error::NoTime)?;
    let file = File::open(trace).map_err(Error::TraceFile)?;
    let bytes = file.metadata().map_err(Error::TraceFile)?.len();
    let mut reader = Reader::new(file)?;
    let mut engine = engine(reader.header(), measured)?;
    while let Some(event) = reader.next_event()? {
        if engine.push(event) == Wants::Enough {
            break;
        }
    }
    let totals = reader.totals();
    if totals.damaged_bytes > 0 {
        return Err(Error::Damaged);
    }
    let findings =
        engine.finish(TraceTotals { bytes, end_ns: Some(totals.end_ns), ..TraceTotals::default() });
    let measurement = Measurement::of(&findings, application, Frames::read(report));
    measurement.ok_or(Error::NoTask(application.name))
}
