//! An experiment: a plan with its scenario, its cells, and their results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use spry_scenario::mistake::Mistake;
use spry_scenario::model::Scenario;

use crate::digest;
use crate::directory::{Circumstances, KeepError, PartialDirectory};
use crate::execute::Outcomes;
use crate::machine::{CellError, Machine};
use crate::model::{Failure, Inputs, MeasuredCell, Results, digest_of};
use crate::plan::{Cell, Plan};
use crate::scheduler::{RealTimeClass, SchedulerError};

/// A scenario as it was read: its text and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// The path that the user gave, or the name of a scenario that comes with Spry. Its ending
    /// gives the format.
    pub name: String,
    /// The text of the scenario.
    pub text: String,
}

impl Source {
    /// The name of a file into which the scenario is written. Its ending gives the format, and no other file
    /// of a directory of results has this name.
    pub fn file_name(&self) -> &'static str {
        file_name(&self.name)
    }
}

/// The name of the file for a scenario that was read under another name.
fn file_name(name: &str) -> &'static str {
    if name.ends_with(".json") { "scenario.json" } else { "scenario.toml" }
}

impl Cell {
    /// The name of a file into which the cell's scenario is written. Its ending gives the format.
    pub fn scenario_file_name(&self) -> &'static str {
        file_name(&self.scenario.file)
    }

    /// The arguments of `spry-runner` for the cell: its values, its seed and the class of its tasks. `work`
    /// is the way in which the runner counts work.
    pub fn runner_arguments(&self, work: &str, class: Option<RealTimeClass>) -> Vec<String> {
        let sets = self.sets.iter().flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]);
        let seed = self.seed.to_string();
        let rest = ["--seed", &seed, "--work", work].map(str::to_owned);
        let class = class.map(|class| ["--class", class.runner_argument()].map(str::to_owned));
        sets.chain(rest).chain(class.into_iter().flatten()).collect()
    }
}

/// Whether the cells of an experiment are recorded, which changes their behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// Each cell leaves a trace.
    EachCell,
    /// No cell is recorded.
    Never,
}

/// The reason why a plan has no cells.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A variable is varied in two places, so the values of one place would be ignored.
    #[error("--vary {0} is given twice: name all its values in one, --vary {0}=1,2")]
    VariedTwice(String),
    /// The scenario has a mistake, or does not take a value of the plan.
    #[error(transparent)]
    Scenario(#[from] Mistake),
}

/// A plan with its scenario.
#[derive(Clone, Debug)]
pub struct Experiment {
    source: Source,
    plan: Plan,
    recording: Recording,
    /// One scenario for each combination of the variables' values; there is at least one.
    scenarios: Vec<Arc<Scenario>>,
    cells: Vec<Cell>,
}

impl Experiment {
    /// Reads the scenario with every combination of the plan's values, so that a mistake is found
    /// before any cell runs.
    ///
    /// # Errors
    /// If the plan or the scenario has a mistake.
    pub fn new(source: Source, plan: Plan, recording: Recording) -> Result<Experiment, PlanError> {
        if let Some(twice) = plan.varied_twice() {
            return Err(PlanError::VariedTwice(twice.to_owned()));
        }
        let read = |sets: &Vec<(String, String)>| Scenario::parse_with(&source.text, &source.name, sets);
        let combinations = plan.combinations();
        let scenarios = combinations.iter().map(|sets| Ok(Arc::new(read(sets)?)));
        let scenarios = scenarios.collect::<Result<Vec<_>, Mistake>>()?;
        let cells = plan.cells(&scenarios);
        Ok(Experiment { source, plan, recording, scenarios, cells })
    }

    /// The scenario as it was read.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The scenario with each combination of the variables' values.
    pub fn scenarios(&self) -> impl Iterator<Item = &Scenario> + Clone {
        self.scenarios.iter().map(Arc::as_ref)
    }

    /// All cells, in the order of the results.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The order in which the cells are begun, as indices of [`Experiment::cells`].
    pub fn order(&self) -> Vec<usize> {
        self.plan.order()
    }

    /// Whether the cells are recorded.
    pub fn is_recorded(&self) -> bool {
        self.recording == Recording::EachCell
    }

    /// The longest time that the scenario runs, including its warm-up.
    pub fn time(&self) -> Duration {
        let all = self.scenarios().map(|scenario| scenario.warmup_ns + scenario.duration_ns);
        Duration::from_nanos(all.max().unwrap_or(0))
    }

    /// The inputs of all cells besides the schedulers: the machine, the scenario, and whether
    /// cells are recorded.
    pub fn inputs(&self, machine: &dyn Machine) -> BTreeMap<String, Value> {
        let mut parts = machine.inputs();
        parts.insert("scenario".to_owned(), json!(digest::of_bytes(self.source.text.as_bytes())));
        parts.insert("record".to_owned(), json!(self.is_recorded()));
        parts
    }

    /// The schedulers as inputs of the cells: for each label, the hashes of its programs or the values of its
    /// settings on this machine.
    ///
    /// # Errors
    /// If a scheduler is not available.
    pub fn schedulers(&self, machine: &dyn Machine) -> Result<Value, SchedulerError> {
        let mut inputs = Map::new();
        for cell in &self.cells {
            if !inputs.contains_key(&cell.label) {
                inputs.insert(cell.label.clone(), Value::from(machine.scheduler(&cell.scheduler)?));
            }
        }
        Ok(Value::Object(inputs))
    }

    /// Makes the results from the outcomes of the cells on a machine.
    ///
    /// # Errors
    /// If a scheduler is not available any more.
    pub fn results(&self, machine: &dyn Machine, outcomes: &Outcomes) -> Result<Results, SchedulerError> {
        let mut cells = Vec::new();
        let mut failures = Vec::new();
        for (cell, outcome) in self.cells.iter().zip(outcomes) {
            match outcome {
                Some(Ok(output)) => cells.push(MeasuredCell::new(cell, output.metrics.clone())),
                Some(Err(CellError::Failed(error))) => failures.push(Failure::new(cell, error.clone())),
                Some(Err(CellError::Interrupted)) | None => {}
            }
        }
        let mut parts = self.inputs(machine);
        parts.insert("schedulers".to_owned(), self.schedulers(machine)?);
        let scenario = &self.scenarios[0];
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

    /// Keeps the results in their directory, with everything that is needed to repeat the run.
    /// `command` is the command line of the run, `kernel` the name of the requested kernel. Returns the
    /// path of the directory.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn keep(
        &self,
        partial: PartialDirectory,
        results: &Results,
        outcomes: &Outcomes,
        command: Vec<String>,
        kernel: Option<&str>,
    ) -> Result<PathBuf, KeepError> {
        partial.subdirectory("cells")?;
        for (cell, outcome) in self.cells.iter().zip(outcomes) {
            let Some(Ok(output)) = outcome else { continue };
            let report = format!("{:#}", output.report);
            partial.write(&format!("cells/{}.json", cell.file_name()), report.as_bytes())?;
        }
        let mut defaults = Map::new();
        for variable in self.scenarios().flat_map(|scenario| &scenario.variables) {
            defaults.insert(variable.name.clone(), Value::from(variable.default.clone()));
        }
        let circumstances = Circumstances {
            file_name: self.source.file_name(),
            scenario: self.source.text.clone(),
            command,
            notes: json!({ "spry": env!("CARGO_PKG_VERSION"), "defaults": defaults, "kernel": kernel }),
        };
        partial.finish(results, &circumstances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"
        name = "film"
        [variables]
        stressers = { default = 0, min = 0 }
        [[task]]
        name = "a"
        kind = "stresser"
        count = "$stressers"
    "#;

    fn experiment(vary: &[&str], recording: Recording) -> Result<Experiment, PlanError> {
        let source = Source { name: "film.toml".to_owned(), text: SCENARIO.to_owned() };
        let schedulers = ["eevdf", "fifo"].map(|name| name.parse().unwrap()).into();
        let vary = vary.iter().map(|text| text.parse().unwrap()).collect();
        Experiment::new(source, Plan { schedulers, vary, seeds: 2 }, recording)
    }

    #[test]
    fn cells_of_a_combination_share_one_read_scenario() {
        let experiment = experiment(&["stressers=0,8"], Recording::EachCell).unwrap();
        let cells = experiment.cells();
        assert_eq!((cells.len(), experiment.scenarios().count()), (8, 2));
        assert!(Arc::ptr_eq(&cells[0].scenario, &cells[1].scenario));
        assert!(Arc::ptr_eq(&cells[0].scenario, &cells[4].scenario));
        assert_eq!([&cells[0], &cells[2]].map(|cell| cell.scenario.tasks[0].count), [0, 8]);
        assert_eq!(experiment.time(), Duration::from_secs(11));
    }

    #[test]
    fn mistakes_are_told_before_anything_runs() {
        let told = |vary: &[&str]| experiment(vary, Recording::Never).unwrap_err().to_string();
        assert_eq!(
            told(&["stressers=1", "stressers=2"]),
            "--vary stressers is given twice: name all its values in one, --vary stressers=1,2"
        );
        assert!(told(&["stressers=-1"]).starts_with("film.toml"), "{}", told(&["stressers=-1"]));
    }

    #[test]
    fn the_format_of_a_scenario_is_kept_by_the_names_of_its_files() {
        let cell = &experiment(&[], Recording::Never).unwrap().cells()[0].clone();
        assert_eq!(cell.scenario_file_name(), "scenario.toml");
        let source = Source { name: "tasks/taskset.json".to_owned(), text: String::new() };
        assert_eq!(source.file_name(), "scenario.json");
    }
}
