//! Where scenarios run: what every machine offers, and how it fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use spry_workload::model::{Scenario, XServer};

use super::plan::Cell;
use crate::cache::digest_of_file;
use crate::progress::Stop;
use crate::scheduler::Setup;

/// A machine that runs one scenario's cells.
pub trait Machine: Sync {
    /// `host` or `lab`.
    fn name(&self) -> &'static str;

    /// The release of its kernel.
    fn kernel(&self) -> String;

    /// What else went in, for the hash of the inputs.
    fn inputs(&self) -> BTreeMap<String, Value>;

    /// About how long a cell takes, before one has been run.
    fn cell_time(&self) -> Duration;

    /// Runs a cell to its end. Leaves its trace at `trace` if it is to be recorded. Leaves nothing else behind.
    ///
    /// # Errors
    /// Where there are no figures: what happened.
    fn run(&self, cell: &Cell, trace: Option<&Path>, stop: &Stop) -> Result<CellOutput, CellError>;
}

/// What a cell leaves.
#[derive(Clone, PartialEq, Debug)]
pub struct CellOutput {
    /// The figures.
    pub metrics: Map<String, Value>,
    /// All that the runner said, figures of single tasks included.
    pub report: Value,
}

/// Why a cell has no figures.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CellError {
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// It failed, in words.
    #[error("{0}")]
    Failed(String),
}

impl CellOutput {
    /// Reads what `spry-runner` wrote.
    ///
    /// # Errors
    /// Where that is no JSON object with metrics.
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

/// What a machine must do for a cell of a scenario.
///
/// # Errors
/// Where the scheduler cannot be had.
pub(super) fn setup(cell: &Cell, scenario: &Scenario, peers: &Path) -> Result<Setup, CellError> {
    let setup = cell.scheduler.setup(peers).map_err(|error| CellError::Failed(error.to_string()))?;
    let machine = &scenario.machine;
    let is_synthetic = machine.display.is_some() && machine.server == XServer::Xvfb;
    Ok(if is_synthetic { setup.with_synthetic_input() } else { setup })
}

/// The schedulers of some cells as inputs: for each binary its hash, for each setting what is written.
///
/// # Errors
/// Where a scheduler's binary cannot be read.
pub fn scheduler_inputs(cells: &[Cell], peers: &Path) -> Result<Value, CellError> {
    let failed = |error: &dyn ToString| CellError::Failed(error.to_string());
    let mut inputs = Map::new();
    for cell in cells {
        if inputs.contains_key(&cell.label) {
            continue;
        }
        let setup = cell.scheduler.setup(peers).map_err(|error| failed(&error))?;
        let input = match &setup.program {
            Some(program) => digest_of_file(&program.file).map_err(|error| failed(&error))?,
            None => {
                let settings =
                    setup.settings.iter().map(|setting| format!("{}={}", setting.path, setting.value));
                settings.collect::<Vec<_>>().join(" ")
            }
        };
        inputs.insert(cell.label.clone(), Value::from(input));
    }
    Ok(Value::Object(inputs))
}
