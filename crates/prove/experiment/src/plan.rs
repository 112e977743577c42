//! The plan of a run: its cells. There is a cell for every scheduler with every combination of the variables'
//! values and with every seed.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::{Map, Value};
use spry_scenario::model::{Scenario, XServer};

use crate::digest;
use crate::scheduler::{SchedulerError, SchedulerSpec, Setup};

/// The greatest length of a cell's name in file names, bytes. File systems take 255; a study's application is
/// put before the name, and endings after it.
const FILE_NAME_MAX: usize = 180;
/// The number of the digest's digits in a name that would be longer.
const DIGEST_DIGITS: usize = 16;

/// A variable of a scenario, and the values that it takes one after another: `stressers=0,1,2`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vary {
    key: String,
    values: Vec<String>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Vary, String> {
        let wrong = || format!("`{text}` varies nothing: say KEY=A,B,.. (stressers=0,4,8)");
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        if let Some(twice) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(format!("`{text}` names {} twice", twice.1));
        }
        Ok(Vary { key: key.to_owned(), values })
    }
}

impl Vary {
    /// The variable's name.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The variable's values, in order.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

/// A cell: one run of a scenario.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The scenario, with the values of the variables.
    pub scenario: Arc<Scenario>,
    /// The scheduler of the cell.
    pub scheduler: SchedulerSpec,
    /// The scheduler's name in the results.
    pub label: String,
    /// The values of the variables, as they were written.
    pub sets: Vec<(String, String)>,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Cell {
    /// The values of the variables as JSON. A value that is written as a JSON number becomes a number.
    pub fn vary(&self) -> Map<String, Value> {
        self.sets.iter().map(|(key, value)| (key.clone(), json(value))).collect()
    }

    /// The preparations that a machine of real threads needs before it runs the cell. Published schedulers
    /// are taken from the directory `peers`.
    ///
    /// # Errors
    /// If the scheduler is not available.
    pub fn setup(&self, peers: &Path) -> Result<Setup, SchedulerError> {
        let setup = self.scheduler.setup(peers)?;
        let machine = &self.scenario.machine;
        let is_synthetic = machine.display.is_some() && machine.server == XServer::Xvfb;
        Ok(if is_synthetic { setup.with_synthetic_input() } else { setup })
    }

    /// The cell's name in file names, such as `scx_bpfland-stressers=4-seed1`. If the name would be too long,
    /// it is cut, and ends in the digest of the whole name.
    pub fn file_name(&self) -> String {
        let whole = self.joined("-", format!("seed{}", self.seed));
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_=.+".contains(c);
        let mut name: String = whole.chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
        if name.len() > FILE_NAME_MAX {
            let digest = &digest::of_bytes(whole.as_bytes())[..DIGEST_DIGITS];
            name.truncate(FILE_NAME_MAX - DIGEST_DIGITS - 1);
            name = format!("{name}-{digest}");
        }
        name
    }

    /// The cell's name in messages, such as `scx_bpfland, stressers=4, seed 1`.
    pub fn name(&self) -> String {
        self.joined(", ", format!("seed {}", self.seed))
    }

    fn joined(&self, between: &str, seed: String) -> String {
        let sets = self.sets.iter().map(|(key, value)| format!("{key}={value}"));
        [self.label.clone()].into_iter().chain(sets).chain([seed]).collect::<Vec<_>>().join(between)
    }
}

fn json(text: &str) -> Value {
    let number = serde_json::from_str::<serde_json::Number>(text).ok();
    let number = number.filter(|number| number.to_string().as_str() == text);
    number.map_or_else(|| Value::from(text), Value::Number)
}

/// The cells that are to be run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The schedulers: each has a column in the tables.
    pub schedulers: Vec<SchedulerSpec>,
    /// The variables that are varied: each combination of their values has a row in the tables.
    pub vary: Vec<Vary>,
    /// The number of seeds. Each combination is run with the seeds from 1 to this number.
    pub seeds: u64,
}

impl Plan {
    /// All cells, in the order of the results: by scheduler, then by the variables (the last variable changes
    /// fastest), then by seed. `scenarios` has the scenario with each of [`Plan::combinations`].
    pub(crate) fn cells(&self, scenarios: &[Arc<Scenario>]) -> Vec<Cell> {
        let labels = self.labels();
        let combinations = self.combinations();
        let mut cells = Vec::new();
        for (scheduler, label) in self.schedulers.iter().zip(&labels) {
            for (sets, scenario) in combinations.iter().zip(scenarios) {
                cells.extend((1..=self.seeds).map(|seed| Cell {
                    scenario: scenario.clone(),
                    scheduler: scheduler.clone(),
                    label: label.clone(),
                    sets: sets.clone(),
                    seed,
                }));
            }
        }
        cells
    }

    /// A variable that is varied in two places of the command line; the values of one place would be ignored.
    pub fn varied_twice(&self) -> Option<&str> {
        let keys = self.vary.iter().enumerate().map(|(at, vary)| (at, vary.key.as_str()));
        keys.clone()
            .find(|&(at, key)| keys.clone().any(|(other, known)| other < at && known == key))
            .map(|it| it.1)
    }

    /// Every combination of the variables' values.
    pub fn combinations(&self) -> Vec<Vec<(String, String)>> {
        self.vary.iter().fold(vec![Vec::new()], |combinations, vary| {
            let one_more = |sets: &Vec<(String, String)>, value: &String| {
                let mut sets = sets.clone();
                sets.push((vary.key.clone(), value.clone()));
                sets
            };
            combinations
                .iter()
                .flat_map(|sets| vary.values.iter().map(move |value| one_more(sets, value)))
                .collect()
        })
    }

    /// The order in which the cells are run, as indices of the cells. Neighbours differ in the scheduler
    /// first and in the seed last. So slow changes of the machine affect all schedulers alike.
    pub fn order(&self) -> Vec<usize> {
        let combinations = self.combinations().len();
        let seeds = self.seeds as usize;
        let number =
            |scheduler: usize, sets: usize, seed: usize| (scheduler * combinations + sets) * seeds + seed;
        let schedulers = self.schedulers.len();
        (0..seeds)
            .flat_map(|seed| (0..combinations).map(move |sets| (seed, sets)))
            .flat_map(|(seed, sets)| (0..schedulers).map(move |scheduler| number(scheduler, sets, seed)))
            .collect()
    }

    /// The names of the columns. They are short, unless two short names would be the same.
    fn labels(&self) -> Vec<String> {
        let short: Vec<String> = self.schedulers.iter().map(SchedulerSpec::label).collect();
        let is_twice = |label: &String| short.iter().filter(|&other| other == label).count() > 1;
        let names = self.schedulers.iter().zip(&short);
        names.map(|(spec, label)| if is_twice(label) { spec.to_string() } else { label.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Experiment, Recording, Source};

    fn plan(schedulers: &[&str], vary: &[&str], seeds: u64) -> Plan {
        Plan {
            schedulers: schedulers.iter().map(|text| text.parse().unwrap()).collect(),
            vary: vary.iter().map(|text| text.parse().unwrap()).collect(),
            seeds,
        }
    }

    /// The cells of a plan for a scenario that has the plan's variables.
    fn cells(plan: &Plan) -> Vec<Cell> {
        let variables = plan.vary.iter().map(|vary| format!("{} = {{ default = \"\" }}\n", vary.key));
        let text = format!(
            "name = \"any\"\n[variables]\n{}[[task]]\nname = \"loop\"\nkind = \"stresser\"\n",
            variables.collect::<String>()
        );
        let source = Source { name: "any.toml".to_owned(), text };
        Experiment::new(source, plan.clone(), Recording::Never).unwrap().cells().to_vec()
    }

    #[test]
    fn a_variable_that_is_varied_twice_is_told() {
        assert_eq!(plan(&["eevdf"], &["cpus=1", "fps=25", "cpus=2"], 1).varied_twice(), Some("cpus"));
        assert_eq!(plan(&["eevdf"], &["cpus=1,2", "fps=25"], 1).varied_twice(), None);
    }

    #[test]
    fn cells_are_every_combination_in_order() {
        let plan = plan(&["eevdf", "fifo"], &["stressers=0,8", "fps=25,50"], 2);
        let names: Vec<String> = cells(&plan).iter().map(Cell::name).collect();
        assert_eq!(names.len(), 16);
        assert_eq!(names[0], "eevdf, stressers=0, fps=25, seed 1");
        assert_eq!(names[1], "eevdf, stressers=0, fps=25, seed 2");
        assert_eq!(names[2], "eevdf, stressers=0, fps=50, seed 1");
        assert_eq!(names[15], "fifo, stressers=8, fps=50, seed 2");
    }

    #[test]
    fn every_cell_runs_once_and_schedulers_alternate() {
        let plan = plan(&["eevdf", "fifo", "rr"], &["stressers=0,8"], 2);
        let order = plan.order();
        let cells = cells(&plan);
        assert_eq!([0, 1, 2].map(|at| cells[order[at]].label.as_str()), ["eevdf", "fifo", "rr"]);
        assert!(order[..6].iter().all(|&at| cells[at].seed == 1));
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_stay_numbers_and_words_words() {
        let cell = &cells(&plan(&["eevdf"], &["n=8", "kind=BLK", "s=007", "x=1e3", "y=0.5"], 1))[0];
        let json = Value::Object(cell.vary()).to_string();
        assert_eq!(json, r#"{"kind":"BLK","n":8,"s":"007","x":"1e3","y":0.5}"#);
        assert_eq!(cell.file_name(), "eevdf-n=8-kind=BLK-s=007-x=1e3-y=0.5-seed1");
    }

    #[test]
    fn very_many_scheduler_arguments_make_valid_unique_file_names() {
        let spec = |last: &str| format!("spry:{}--as-thesis {last}", "--as-thesis input-scale ".repeat(20));
        let (one, other) = (spec("waits"), spec("wake"));
        let names: Vec<String> = cells(&plan(&[&one, &other], &["stressers=0,8"], 2))
            .iter()
            .map(|cell| cell.file_name())
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 8, "{names:?}");
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            // A study puts its application before the name, and writes a file under another name first.
            let path = directory.path().join(format!("quake-demonstration-{name}.json.partial"));
            std::fs::write(&path, "").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    #[test]
    fn two_binaries_of_one_name_are_told_apart() {
        let labels = plan(&["./old/scx_mine", "./new/scx_mine", "eevdf"], &[], 1).labels();
        assert_eq!(labels, ["./old/scx_mine", "./new/scx_mine", "eevdf"]);
        assert_eq!(plan(&["./old/scx_mine"], &[], 1).labels(), ["scx_mine"]);
    }

    #[test]
    fn a_variable_without_values_is_refused() {
        for text in ["stressers", "=1", "stressers=", "stressers=1,,2", "n=1,1"] {
            assert!(text.parse::<Vary>().is_err(), "{text}");
        }
    }
}
