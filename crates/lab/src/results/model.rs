//! The results of a run: cells with their figures and digests, and what went into them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::digest;
use super::metric::{Metric, flatten};
use super::plan::Cell;

/// Everything a run found out; serialised, it is what `spry run --json` prints.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// `host` or `lab`.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
    /// The digest over the cells' digests, in order.
    pub digest: String,
    /// The metrics that the scenario is run for, the first first; left out of the JSON where it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measure: Vec<String>,
    /// What went in.
    pub inputs: Inputs,
    /// What came out.
    pub cells: Vec<Measured>,
    /// Cells that came to nothing; left out of the JSON where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// What went into a run, by hashes: only of equal inputs are equal figures promised.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Inputs {
    /// The hash over the others.
    pub hash: String,
    /// Each input: the hash of a file, a version, a setting.
    #[serde(flatten)]
    pub parts: BTreeMap<String, Value>,
}

impl Inputs {
    /// Of these parts.
    pub fn new(parts: BTreeMap<String, Value>) -> Inputs {
        Inputs { hash: digest::of_json(&json!(parts)), parts }
    }

    /// Whether the run was recorded, which changes what happens in it.
    pub fn is_recorded(&self) -> bool {
        self.parts.get("record").and_then(Value::as_bool).unwrap_or(false)
    }
}

/// A cell that was run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Measured {
    /// The scheduler, as it was asked for.
    pub scheduler: String,
    /// The scenario's variables that were varied.
    pub vary: Map<String, Value>,
    /// The seed.
    pub seed: u64,
    /// The digest of the metrics.
    pub digest: String,
    /// The figures.
    pub metrics: Map<String, Value>,
}

/// A cell that came to nothing.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Failure {
    /// The scheduler.
    pub scheduler: String,
    /// The scenario's variables that were varied.
    pub vary: Map<String, Value>,
    /// The seed.
    pub seed: u64,
    /// What happened.
    pub error: String,
}

impl Measured {
    /// The figures of a cell.
    pub fn new(cell: &Cell, metrics: Map<String, Value>) -> Measured {
        let digest = digest::of_json(&Value::Object(metrics.clone()));
        Measured { scheduler: cell.label.clone(), vary: cell.vary(), seed: cell.seed, digest, metrics }
    }
}

impl Failure {
    /// A cell's end.
    pub fn new(cell: &Cell, error: String) -> Failure {
        Failure { scheduler: cell.label.clone(), vary: cell.vary(), seed: cell.seed, error }
    }
}

/// The digest over cells, in their order.
pub fn digest_of(cells: &[Measured]) -> String {
    let digests: Vec<&str> = cells.iter().map(|cell| cell.digest.as_str()).collect();
    digest::of_json(&json!(digests))
}

/// The variables of a row of a table.
pub type Load = Map<String, Value>;

/// `stressers=4, fps=25`; nothing where nothing was varied.
pub fn load_words(load: &Load) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    load.iter().map(|(key, value)| format!("{key}={}", word(value))).collect::<Vec<_>>().join(", ")
}

/// A metric's values over the seeds of one cell of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// Of these values; none if there are none.
    pub fn new(mut values: Vec<f64>) -> Option<Sample> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Sample { values })
    }

    /// The middle value, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.values.len() / 2;
        if self.values.len() % 2 == 1 {
            self.values[middle]
        } else {
            f64::midpoint(self.values[middle - 1], self.values[middle])
        }
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.values[0]
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.values[self.values.len() - 1]
    }

    /// From the smallest to the largest.
    pub fn range(&self) -> f64 {
        self.max() - self.min()
    }

    /// The values, smallest first.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

impl Results {
    /// The schedulers, in the order of the cells.
    pub fn schedulers(&self) -> Vec<&str> {
        let mut names = Vec::new();
        let all = self.cells.iter().map(|cell| &cell.scheduler);
        for name in all.chain(self.failures.iter().map(|failure| &failure.scheduler)) {
            if !names.contains(&name.as_str()) {
                names.push(name.as_str());
            }
        }
        names
    }

    /// The rows: each combination of variables, in the order of the cells.
    pub fn loads(&self) -> Vec<&Load> {
        let mut loads: Vec<&Load> = Vec::new();
        let all = self.cells.iter().map(|cell| &cell.vary);
        for load in all.chain(self.failures.iter().map(|failure| &failure.vary)) {
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
        loads
    }

    /// How many seeds there are.
    pub fn seeds(&self) -> usize {
        let mut seeds: Vec<u64> = self.cells.iter().map(|cell| cell.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds.len()
    }

    /// Every metric that any cell has: those that the scenario is run for in its order, then the most telling first.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> =
            self.cells.iter().flat_map(|cell| flatten(&cell.metrics).into_keys()).collect();
        metrics.sort_by(|a, b| (self.place(a), a.rank()).cmp(&(self.place(b), b.rank())));
        metrics.dedup();
        metrics
    }

    /// Where the scenario names a metric; behind all where it does not.
    fn place(&self, metric: &Metric) -> usize {
        self.measure.iter().position(|name| metric.is_of(name)).unwrap_or(self.measure.len())
    }

    /// Whether a metric is one that the scenario is run for, and of its statistics the most telling.
    pub fn is_main(&self, metric: &Metric) -> bool {
        if self.measure.is_empty() {
            return metric.is_main();
        }
        let is_better = |other: &Metric| other.is_sibling(metric) && other.rank() < metric.rank();
        self.place(metric) < self.measure.len() && !self.metrics().iter().any(is_better)
    }

    /// A metric of one scheduler beside one load, over the seeds.
    pub fn sample(&self, scheduler: &str, load: &Load, metric: &Metric) -> Option<Sample> {
        let cells = self.cells.iter().filter(|cell| cell.scheduler == scheduler && cell.vary == *load);
        Sample::new(cells.filter_map(|cell| flatten(&cell.metrics).get(metric).copied()).collect())
    }

    /// A metric that is shown as part of another, where that is the same number everywhere: `of 250`.
    pub fn whole(&self, metric: &Metric) -> Option<f64> {
        let whole = metric.whole()?;
        let mut values = self.cells.iter().map(|cell| flatten(&cell.metrics).get(&whole).copied());
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }
}
