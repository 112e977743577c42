//! The plan of a run: schedulers by combinations of variables by seeds, each a cell.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::scheduler::SchedulerSpec;

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

    /// Its values, in order.
    pub fn values(&self) -> &[String] {
        &self.values
    }
}

/// One run of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// The scheduler's name in the results.
    pub label: String,
    /// The variables' values, as they were written.
    pub sets: Vec<(String, String)>,
    /// The seed of everything random.
    pub seed: u64,
}

impl Cell {
    /// The variables' values as JSON: numbers where they are written as JSON writes them.
    pub fn vary(&self) -> Map<String, Value> {
        self.sets.iter().map(|(key, value)| (key.clone(), json(value))).collect()
    }

    /// A name for files: `scx_bpfland-stressers=4-seed1`.
    pub fn file_name(&self) -> String {
        let name = self.joined("-", format!("seed{}", self.seed));
        let is_safe = |c: char| c.is_ascii_alphanumeric() || "-_=.+".contains(c);
        name.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
    }

    /// How a message names it: `scx_bpfland, stressers=4, seed 1`.
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

/// What is to be run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The columns.
    pub schedulers: Vec<SchedulerSpec>,
    /// The rows are every combination of these.
    pub vary: Vec<Vary>,
    /// How many seeds each cell is run with: 1 to this.
    pub seeds: u64,
}

impl Plan {
    /// Every cell, in the order of the results: by scheduler, then by variables (the last changes fastest), then by seed.
    pub fn cells(&self) -> Vec<Cell> {
        let labels = self.labels();
        let combinations = self.combinations();
        let mut cells = Vec::new();
        for (scheduler, label) in self.schedulers.iter().zip(&labels) {
            for sets in &combinations {
                cells.extend((1..=self.seeds).map(|seed| Cell {
                    scheduler: scheduler.clone(),
                    label: label.clone(),
                    sets: sets.clone(),
                    seed,
                }));
            }
        }
        cells
    }

    /// A variable whose values are named in two places, of which one would be forgotten.
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

    /// In which order cells run one after another: neighbours differ in scheduler first and in seed last, so that a
    /// machine's moods spread over all that is compared. Numbers of `cells()`.
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

    /// The columns' names: short ones, unless two would be the same.
    fn labels(&self) -> Vec<String> {
        let short: Vec<String> = self.schedulers.iter().map(SchedulerSpec::label).collect();
        let is_twice = |label: &String| short.iter().filter(|&other| other == label).count() > 1;
        let names = self.schedulers.iter().zip(&short);
        names.map(|(spec, label)| if is_twice(label) { spec.to_string() } else { label.clone() }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(schedulers: &[&str], vary: &[&str], seeds: u64) -> Plan {
        Plan {
            schedulers: schedulers.iter().map(|text| text.parse().unwrap()).collect(),
            vary: vary.iter().map(|text| text.parse().unwrap()).collect(),
            seeds,
        }
    }

    #[test]
    fn a_variable_that_is_varied_twice_is_told() {
        assert_eq!(plan(&["eevdf"], &["cpus=1", "fps=25", "cpus=2"], 1).varied_twice(), Some("cpus"));
        assert_eq!(plan(&["eevdf"], &["cpus=1,2", "fps=25"], 1).varied_twice(), None);
    }

    #[test]
    fn cells_are_every_combination_in_order() {
        let plan = plan(&["eevdf", "fifo"], &["stressers=0,8", "fps=25,50"], 2);
        let names: Vec<String> = plan.cells().iter().map(Cell::name).collect();
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
        let cells = plan.cells();
        assert_eq!([0, 1, 2].map(|at| cells[order[at]].label.as_str()), ["eevdf", "fifo", "rr"]);
        assert!(order[..6].iter().all(|&at| cells[at].seed == 1));
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn numbers_stay_numbers_and_words_words() {
        let cell = &plan(&["eevdf"], &["n=8", "kind=BLK", "s=007", "x=1e3", "y=0.5"], 1).cells()[0];
        let json = Value::Object(cell.vary()).to_string();
        assert_eq!(json, r#"{"kind":"BLK","n":8,"s":"007","x":"1e3","y":0.5}"#);
        assert_eq!(cell.file_name(), "eevdf-n=8-kind=BLK-s=007-x=1e3-y=0.5-seed1");
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
