//! The machines on which scenarios run: the interface of each, and its errors.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use spry_trace::Group;

use crate::plan::Cell;
use crate::scheduler::{SchedulerError, SchedulerSpec};
use crate::stop::Stop;

/// The groups of events that are recorded in a cell. The analyses of delays and of frames need them.
pub const RECORDED_GROUPS: [Group; 6] =
    [Group::Sched, Group::Timer, Group::Irq, Group::Resched, Group::Ipc, Group::Mark];

/// A machine that can run the cells of one experiment.
pub trait Machine: Sync {
    /// The kind of machine in results, such as `host` or `lab`.
    fn name(&self) -> &'static str;

    /// The release of the machine's kernel.
    fn kernel(&self) -> String;

    /// The inputs that affect the values, besides the scenario and the schedulers. They are hashed.
    fn inputs(&self) -> BTreeMap<String, Value>;

    /// The identity of a scheduler on this machine, as an input: the hashes of its programs, or the values
    /// of its settings.
    ///
    /// # Errors
    /// If the scheduler is not available.
    fn scheduler(&self, scheduler: &SchedulerSpec) -> Result<String, SchedulerError>;

    /// An estimate of how long a cell takes, before a cell has been run.
    fn cell_time(&self) -> Duration;

    /// How many cells can run side by side and leave each other's values as they are; 1 or more.
    fn side_by_side(&self) -> usize;

    /// Runs a cell to its end. If the cell is to be recorded, its trace is written to `trace`. No other file
    /// and no process of the cell stays on the machine.
    ///
    /// # Errors
    /// If the cell gives no values; the error has the reason.
    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError>;
}

/// The results of a cell.
#[derive(Clone, PartialEq, Debug)]
pub struct CellOutput {
    /// The values of the metrics.
    pub metrics: Map<String, Value>,
    /// The whole report of the runner, including the values of single tasks.
    pub report: Value,
}

/// The reason why a cell has no values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CellError {
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
    /// The cell failed; the text has the reason.
    #[error("{0}")]
    Failed(String),
}

impl CellOutput {
    /// Reads the output of `spry-runner`.
    ///
    /// # Errors
    /// If the output is not a JSON object with metrics.
    pub fn read(text: &str) -> Result<CellOutput, CellError> {
        let wrong =
            |what: String| CellError::Failed(format!("what spry-runner wrote cannot be read: {what}"));
        let report: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match report.get("metrics") {
            Some(Value::Object(metrics)) => Ok(CellOutput { metrics: metrics.clone(), report }),
            _ => Err(wrong("it has no metrics".to_owned())),
        }
    }
}
