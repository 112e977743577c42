//! The outcome of a run of a scenario, on any machine.

use serde_json::{Value, json};

use crate::metrics::Metrics;
use crate::model::Scenario;

/// The measurements of a run.
#[derive(Debug)]
pub struct Outcome {
    scenario: String,
    seed: u64,
    vary: Value,
    work: Value,
    measured: MeasuredTime,
    tasks: Vec<(String, u32, Metrics)>,
    notes: Vec<String>,
}

/// The beginning and the end of the measured time, ns of the machine's monotonic clock, which is also
/// a trace's clock.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredTime {
    /// The beginning of the measured time, ns.
    pub from_ns: u64,
    /// The end of the measured time, ns.
    pub to_ns: u64,
}

impl Outcome {
    /// Puts together the results of the tasks' instances: for each instance the index of its task, and its
    /// metrics. `work` describes how the machine turned CPU time into work.
    ///
    /// # Panics
    /// If the scenario has no task with such an index.
    pub fn gathered(
        scenario: &Scenario,
        seed: u64,
        work: Value,
        measured: MeasuredTime,
        results: Vec<(usize, Metrics)>,
    ) -> Self {
        let mut tasks: Vec<(String, u32, Metrics)> =
            scenario.tasks.iter().map(|task| (task.name.clone(), task.count, Metrics::new())).collect();
        for (task, metrics) in results {
            tasks[task].2.join(metrics);
        }
        let mut notes = scenario.notes.clone();
        for (_, _, metrics) in &tasks {
            for note in metrics.notes() {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
        }
        let vary = scenario.variables.iter().map(|v| (v.name.clone(), vary_value(&v.value))).collect();
        let (scenario, vary) = (scenario.name.clone(), Value::Object(vary));
        Self { scenario, seed, vary, work, measured, tasks, notes }
    }

    /// The times of a metric with quantiles, over all tasks that have it, ns, in ascending order; `None` if
    /// no task has it.
    pub fn times(&self, metric: &str) -> Option<Vec<u64>> {
        let of: Vec<&[u64]> = self.tasks.iter().filter_map(|(_, _, metrics)| metrics.times(metric)).collect();
        let mut times = of.concat();
        times.sort_unstable();
        (!of.is_empty()).then_some(times)
    }

    /// The outcome as one JSON object with the keys scenario, seed, vary, work, measured,
    /// metrics, tasks, notes.
    pub fn to_json(&self) -> Value {
        let metrics: Vec<(String, Metrics)> =
            self.tasks.iter().map(|(name, _, metrics)| (name.clone(), metrics.clone())).collect();
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|(name, count, metrics)| json!({ "name": name, "count": count, "cpu_ns": metrics.cpu_ns() }))
            .collect();
        json!({
            "scenario": self.scenario,
            "seed": self.seed,
            "vary": self.vary,
            "work": self.work,
            "measured": { "from_ns": self.measured.from_ns, "to_ns": self.measured.to_ns },
            "metrics": Metrics::merge(&metrics),
            "tasks": tasks,
            "notes": self.notes,
        })
    }
}

/// A variable's value as JSON. A text that is a number becomes a JSON number.
fn vary_value(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => json!(whole),
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Samples;

    #[test]
    fn instances_of_a_task_are_pooled_and_variables_may_be_numbers() {
        let text = "[variables]\nn = { default = 2 }\nload = { default = \"BLK\" }\n\
                    [[task]]\nname = \"t\"\ncount = \"$n\"\nkind = \"alarms\"\nload = \"$load\"\n";
        let scenario = Scenario::parse(text, "x.toml").expect("the scenario is right");
        let instance = |alarms, cpu_ns| {
            let mut metrics = Metrics::new();
            metrics.count("alarms", alarms);
            let mut late = Samples::with_capacity(2);
            [cpu_ns, alarms].into_iter().for_each(|ns| late.push(ns));
            metrics.quantiles("late_ns", &late, &["max"]);
            metrics.add_cpu(cpu_ns);
            metrics.note("a note");
            (0, metrics)
        };
        let measured = MeasuredTime { from_ns: 5, to_ns: 9 };
        let results = vec![instance(3, 10), instance(4, 20)];
        let outcome =
            Outcome::gathered(&scenario, 7, json!({ "counted": "instructions" }), measured, results);
        let expected = json!({
            "scenario": "x",
            "seed": 7,
            "vary": { "n": 2, "load": "BLK" },
            "work": { "counted": "instructions" },
            "measured": { "from_ns": 5, "to_ns": 9 },
            "metrics": { "alarms": 7, "late_ns": { "max": 20 } },
            "tasks": [{ "name": "t", "count": 2, "cpu_ns": 30 }],
            "notes": ["a note"],
        });
        assert_eq!(outcome.to_json(), expected);
        assert_eq!(outcome.times("late_ns"), Some(vec![3, 4, 10, 20]));
        assert_eq!((outcome.times("alarms"), outcome.times("other")), (None, None));
    }
}
