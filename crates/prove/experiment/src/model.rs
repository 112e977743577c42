//! The results of a run: its cells with their values and digests, and the inputs on which they depend.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::digest;
use crate::metric::{Metric, flatten};
use crate::plan::Cell;

/// All results of a run, which `spry run --json` prints as JSON.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// The kind of machine: `host` or `lab`.
    pub machine: String,
    /// The release of the machine's kernel.
    pub kernel: String,
    /// The digest over the digests of all cells, in order.
    pub digest: String,
    /// The metrics for which the scenario is run, the most important first. The JSON does not have them if
    /// the scenario names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measure: Vec<String>,
    /// The inputs of the run.
    pub inputs: Inputs,
    /// The cells with their measured values.
    pub cells: Vec<MeasuredCell>,
    /// The cells that failed. The JSON does not have this field if no cell failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// The inputs of a run, as hashes. Only runs with equal inputs must have equal values.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Inputs {
    /// The hash over all parts.
    pub hash: String,
    /// Each input: the hash of a file, a version, a setting.
    #[serde(flatten)]
    pub parts: BTreeMap<String, Value>,
}

impl Inputs {
    /// Makes the inputs of these parts.
    pub fn new(parts: BTreeMap<String, Value>) -> Inputs {
        Inputs { hash: digest::of_json(&json!(parts)), parts }
    }

    /// Whether the run was recorded, which changes its behaviour.
    pub fn is_recorded(&self) -> bool {
        self.parts.get("record").and_then(Value::as_bool).unwrap_or(false)
    }
}

/// A cell that was run.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct MeasuredCell {
    /// The scheduler, with the name that the command line gave it.
    pub scheduler: String,
    /// The values of the scenario's variables that the plan varies.
    pub vary: Map<String, Value>,
    /// The seed of the cell.
    pub seed: u64,
    /// The digest of the cell's metrics.
    pub digest: String,
    /// The values of the metrics.
    pub metrics: Map<String, Value>,
}

/// A cell that failed.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Failure {
    /// The scheduler, with the name that the command line gave it.
    pub scheduler: String,
    /// The values of the scenario's variables that the plan varies.
    pub vary: Map<String, Value>,
    /// The seed of the cell.
    pub seed: u64,
    /// The reason why the cell failed.
    pub error: String,
}

impl MeasuredCell {
    /// Makes the result of a cell that succeeded.
    pub fn new(cell: &Cell, metrics: Map<String, Value>) -> MeasuredCell {
        let digest = digest::of_json(&Value::Object(metrics.clone()));
        MeasuredCell { scheduler: cell.label.clone(), vary: cell.vary(), seed: cell.seed, digest, metrics }
    }
}

impl Failure {
    /// Makes the failure of a cell.
    pub fn new(cell: &Cell, error: String) -> Failure {
        Failure { scheduler: cell.label.clone(), vary: cell.vary(), seed: cell.seed, error }
    }
}

/// The digest over the digests of several cells, in their order.
pub fn digest_of(cells: &[MeasuredCell]) -> String {
    let digests: Vec<&str> = cells.iter().map(|cell| cell.digest.as_str()).collect();
    digest::of_json(&json!(digests))
}

/// A load: the values of the varied variables in a row of a table.
pub type Load = Map<String, Value>;

/// A load in words, such as `stressers=4, fps=25`; empty if no variable is varied.
pub fn load_words(load: &Load) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    load.iter().map(|(key, value)| format!("{key}={}", word(value))).collect::<Vec<_>>().join(", ")
}

/// A metric's values over all seeds, for one scheduler under one load.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// Makes a sample of these values; `None` if there are none.
    pub fn new(mut values: Vec<f64>) -> Option<Sample> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Sample { values })
    }

    /// The median: the middle value, or the mean of the two middle values.
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

    /// The difference of the largest and the smallest value.
    pub fn range(&self) -> f64 {
        self.max() - self.min()
    }

    /// The values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

impl Results {
    /// The schedulers of the run, in the order of the cells.
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

    /// The loads of the run: each combination of the variables' values, in the order of the cells.
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

    /// The number of seeds.
    pub fn seeds(&self) -> usize {
        let mut seeds: Vec<u64> = self.cells.iter().map(|cell| cell.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds.len()
    }

    /// All metrics of all cells. The metrics that the scenario names come first, in its order, then the
    /// others by their rank.
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> =
            self.cells.iter().flat_map(|cell| flatten(&cell.metrics).into_keys()).collect();
        metrics.sort_by(|a, b| (self.place(a), a.rank()).cmp(&(self.place(b), b.rank())));
        metrics.dedup();
        metrics
    }

    /// The place of a metric among the metrics that the scenario names. If it is not named, its place is
    /// after all of them.
    fn place(&self, metric: &Metric) -> usize {
        self.measure.iter().position(|name| metric.is_of(name)).unwrap_or(self.measure.len())
    }

    /// Whether the scenario is run for this metric, and the metric is the most important of its statistics.
    pub fn is_main(&self, metric: &Metric) -> bool {
        if self.measure.is_empty() {
            return metric.is_main();
        }
        let is_better = |other: &Metric| other.is_sibling(metric) && other.rank() < metric.rank();
        self.place(metric) < self.measure.len() && !self.metrics().iter().any(is_better)
    }

    /// The values of a metric over all seeds, for one scheduler under one load.
    pub fn sample(&self, scheduler: &str, load: &Load, metric: &Metric) -> Option<Sample> {
        let cells = self.cells.iter().filter(|cell| cell.scheduler == scheduler && cell.vary == *load);
        Sample::new(cells.filter_map(|cell| flatten(&cell.metrics).get(metric).copied()).collect())
    }

    /// The whole of which the metric is a part, if it is the same number in all cells. The heading shows
    /// it as `of 250`.
    pub fn whole(&self, metric: &Metric) -> Option<f64> {
        let whole = metric.whole()?;
        let mut values = self.cells.iter().map(|cell| flatten(&cell.metrics).get(&whole).copied());
        let first = values.next()??;
        values.all(|value| value == Some(first)).then_some(first)
    }
}
