//! The measurements of a run: counts, ratios and exact quantiles, and how several instances are combined.

use serde_json::{Map, Value, json};

/// Measured times in nanoseconds. Each time is kept, in memory that was allocated before the
/// measured time began.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// Reserves memory for this many times. The memory is written to now, so that no page fault comes later.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut room = vec![u64::MAX; capacity];
        // Without this the compiler may leave out the writes to the memory.
        std::hint::black_box(&mut room);
        room.clear();
        Self(room)
    }

    /// Keeps a time. Beyond the capacity, this allocates memory.
    pub fn push(&mut self, ns: u64) {
        self.0.push(ns);
    }

    /// How many times were kept.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no time was kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The metrics of a task (or of a scenario), by name.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    entries: Vec<(String, Metric)>,
    notes: Vec<String>,
    cpu_ns: u64,
}

#[derive(Clone, Debug)]
enum Metric {
    /// A number of things. The numbers of several instances are added.
    Count(u64),
    /// A share or a rate. For several instances the mean is reported.
    Ratio { sum: f64, instances: u32 },
    /// The greatest of some values. For several instances the greatest of all is reported.
    Greatest(u64),
    /// Quantiles of times. The times of several instances are put together.
    Quantiles { samples: Vec<u64>, points: Vec<String> },
}

impl Metrics {
    /// Makes an object without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metric that counts things. The counts of several instances are added.
    pub fn count(&mut self, name: &str, count: u64) {
        self.entries.push((name.into(), Metric::Count(count)));
    }

    /// Adds a metric that is a share or a rate. For several instances the mean is reported.
    pub fn ratio(&mut self, name: &str, ratio: f64) {
        self.entries.push((name.into(), Metric::Ratio { sum: ratio, instances: 1 }));
    }

    /// Adds a metric that is the greatest of some values. For several instances the greatest of
    /// all is reported.
    pub fn greatest(&mut self, name: &str, value: u64) {
        self.entries.push((name.into(), Metric::Greatest(value)));
    }

    /// Adds quantiles of times as metrics. `points` names them: "p50", "p99.9", "min", "max", "sum". The
    /// times of several instances are put together.
    pub fn quantiles(&mut self, name: &str, samples: &Samples, points: &[&str]) {
        let points = points.iter().map(|&point| point.to_owned()).collect();
        self.entries.push((name.into(), Metric::Quantiles { samples: samples.0.clone(), points }));
    }

    /// The times of a metric that has quantiles, ns, in any order; `None` if there is no such metric.
    pub fn times(&self, name: &str) -> Option<&[u64]> {
        let (_, metric) = self.entries.iter().find(|(known, _)| known == name)?;
        match metric {
            Metric::Quantiles { samples, .. } => Some(samples),
            Metric::Count(_) | Metric::Ratio { .. } | Metric::Greatest(_) => None,
        }
    }

    /// Adds a note, which readers of the results need for their interpretation.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The notes, which readers of the results need for their interpretation.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds CPU time that the task's process used.
    pub fn add_cpu(&mut self, ns: u64) {
        self.cpu_ns += ns;
    }

    /// CPU time of all of the task's processes from their start to their end, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    /// Adds the metrics of another instance of the same task.
    pub fn join(&mut self, other: Self) {
        for (name, metric) in other.entries {
            match self.entries.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.join(metric),
                None => self.entries.push((name, metric)),
            }
        }
        self.cpu_ns += other.cpu_ns;
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// The metrics of several tasks in one object. A name that two tasks have gets the task's name before it.
    pub fn merge(tasks: &[(String, Self)]) -> Value {
        let mut merged = Map::new();
        for (task, metrics) in tasks {
            for (name, metric) in &metrics.entries {
                let elsewhere = tasks
                    .iter()
                    .any(|(other, metrics)| other != task && metrics.entries.iter().any(|(n, _)| n == name));
                let key = if elsewhere { format!("{task}.{name}") } else { name.clone() };
                merged.insert(key, metric.to_json());
            }
        }
        Value::Object(merged)
    }

    /// The metrics as JSON, for the pipe from a task's process to the runner.
    pub fn to_wire(&self) -> Value {
        let entries: Vec<Value> = self
            .entries
            .iter()
            .map(|(name, metric)| match metric {
                Metric::Count(count) => json!([name, "count", count]),
                Metric::Ratio { sum, .. } => json!([name, "ratio", sum.to_bits()]),
                Metric::Greatest(value) => json!([name, "greatest", value]),
                Metric::Quantiles { samples, points } => json!([name, "quantiles", samples, points]),
            })
            .collect();
        json!({ "entries": entries, "notes": self.notes, "cpu_ns": self.cpu_ns })
    }

    /// The metrics that [`Self::to_wire`] made into JSON; `None` if the JSON has another form.
    pub fn from_wire(wire: &Value) -> Option<Self> {
        let mut metrics = Self::new();
        for entry in wire.get("entries")?.as_array()? {
            let value = entry.get(2)?;
            let metric = match entry.get(1)?.as_str()? {
                "count" => Metric::Count(value.as_u64()?),
                "ratio" => Metric::Ratio { sum: f64::from_bits(value.as_u64()?), instances: 1 },
                "greatest" => Metric::Greatest(value.as_u64()?),
                _ => Metric::Quantiles {
                    samples: value.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
                    points: serde_json::from_value(entry.get(3)?.clone()).ok()?,
                },
            };
            metrics.entries.push((entry.get(0)?.as_str()?.to_owned(), metric));
        }
        metrics.cpu_ns = wire.get("cpu_ns")?.as_u64()?;
        metrics.notes = serde_json::from_value(wire.get("notes")?.clone()).ok()?;
        Some(metrics)
    }
}

impl Metric {
    fn join(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(a), Self::Count(b)) => *a += b,
            (Self::Greatest(a), Self::Greatest(b)) => *a = (*a).max(b),
            (Self::Ratio { sum, instances }, Self::Ratio { sum: s, instances: n }) => {
                *sum += s;
                *instances += n;
            }
            (Self::Quantiles { samples, .. }, Self::Quantiles { samples: more, .. }) => samples.extend(more),
            (known, other) => *known = other,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Count(value) | Self::Greatest(value) => json!(value),
            // Six decimals: a millionth is far finer than a run's precision, and easier to read.
            Self::Ratio { sum, instances } => json!((sum / f64::from(*instances) * 1e6).round() / 1e6),
            Self::Quantiles { samples, points } => {
                let mut sorted = samples.clone();
                sorted.sort_unstable();
                let named = points.iter().map(|point| (point.clone(), json!(quantile(&sorted, point))));
                Value::Object(named.collect())
            }
        }
    }
}

/// The smallest sample that at least this percentage of all samples does not exceed, or the value that
/// another point ("min", "max", "sum") names. `None` if there are no samples, or if the point is unknown.
fn quantile(sorted: &[u64], point: &str) -> Option<u64> {
    let percent: f64 = match point {
        "min" => return sorted.first().copied(),
        "max" => return sorted.last().copied(),
        "sum" => return (!sorted.is_empty()).then(|| sorted.iter().sum()),
        _ => point.strip_prefix('p')?.parse().ok()?,
    };
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::with_capacity(16);
        times.into_iter().for_each(|ns| samples.push(ns));
        samples
    }

    #[test]
    fn quantiles_are_samples_and_the_greatest_is_the_maximum() {
        let mut metrics = Metrics::new();
        let points = ["min", "p50", "p99", "p99.9", "max", "sum"];
        metrics.quantiles("t_ns", &samples((1..=200).rev()), &points);
        let merged = Metrics::merge(&[("a".into(), metrics)]);
        let expected = json!({ "min": 1, "p50": 100, "p99": 198, "p99.9": 200, "max": 200, "sum": 20_100 });
        assert_eq!(merged, json!({ "t_ns": expected }));
    }

    #[test]
    fn quantiles_of_nothing_are_null() {
        let mut metrics = Metrics::new();
        metrics.quantiles("t_ns", &samples([]), &["p50", "max"]);
        assert_eq!(Metrics::merge(&[("a".into(), metrics)]), json!({ "t_ns": { "p50": null, "max": null } }));
    }

    #[test]
    fn instances_are_summed_averaged_and_joined_over_the_wire() {
        let instance = |count, share, ns: u64| {
            let mut metrics = Metrics::new();
            metrics.count("frames", count);
            metrics.ratio("share", share);
            metrics.greatest("gap_ns_max", ns);
            metrics.quantiles("t_ns", &samples([ns]), &["max"]);
            Metrics::from_wire(&metrics.to_wire()).expect("what was sent is understood")
        };
        let mut joined = Metrics::new();
        for metrics in [instance(2, 0.5, 7), instance(3, 0.25, 9)] {
            joined.join(metrics);
        }
        let expected = json!({ "frames": 5, "share": 0.375, "gap_ns_max": 9, "t_ns": { "max": 9 } });
        assert_eq!(Metrics::merge(&[("a".into(), joined)]), expected);
    }

    #[test]
    fn a_name_that_two_tasks_have_gets_the_task_before_it() {
        let metrics = |names: &[&str]| {
            let mut metrics = Metrics::new();
            names.iter().for_each(|name| metrics.count(name, 1));
            metrics
        };
        let merged = Metrics::merge(&[("a".into(), metrics(&["x", "y"])), ("b".into(), metrics(&["x"]))]);
        assert_eq!(merged, json!({ "a.x": 1, "b.x": 1, "y": 1 }));
    }
}
