//! A comparison as the JSON that `spry compare --json` prints.

use serde_json::{Value, json};

use crate::compare::{Column, Comparison, POINTS, Run, judge};
use crate::json::summary;
use crate::summary::Summary;

/// The whole comparison: each column's figures, and every pair's differences.
pub fn report(comparison: &Comparison) -> Value {
    let columns = &comparison.columns;
    let pairs = columns
        .iter()
        .enumerate()
        .flat_map(|(at, first)| columns[at + 1..].iter().map(move |second| (first, second)));
    json!({
        "basis": comparison.basis.name(),
        "results": columns.iter().map(column).collect::<Vec<_>>(),
        "differences": pairs.flat_map(|(first, second)| differences(first, second)).collect::<Vec<_>>(),
    })
}

fn column(column: &Column) -> Value {
    let results = &column.results;
    let mut value = json!({
        "name": column.name,
        "kernel": results.machine.kernel,
        "preemption": results.machine.preemption,
        "scheduler": results.machine.scheduler,
        "source": results.source.name(),
        "rate_hz": results.rate_hz,
        "priority": results.priority,
        "load": results.load,
        "missed": results.missed(),
        "runs": column.runs.iter().map(run).collect::<Vec<_>>(),
    });
    if let (Value::Object(value), Value::Object(figures)) = (&mut value, summary(&column.histogram)) {
        value.extend(figures);
    }
    value
}

fn run(run: &Run) -> Value {
    let of = |summary: &Summary| -> Value {
        summary
            .quantiles
            .iter()
            .map(|estimate| (estimate.quantile.name().to_owned(), json!(estimate.value_ns)))
            .collect()
    };
    json!({
        "file": run.file,
        "samples": run.summary.count,
        "mean_ns": run.summary.mean_ns,
        "max_ns": run.summary.max_ns,
        "quantiles": of(&run.summary),
    })
}

fn differences<'a>(first: &'a Column, second: &'a Column) -> impl Iterator<Item = Value> + 'a {
    POINTS.into_iter().map(move |point| {
        json!({
            "at": point.name(),
            "first": first.name,
            "second": second.name,
            "first_ns": point.value_ns(&first.summary),
            "second_ns": point.value_ns(&second.summary),
            "second_is": judge(first, second, point).name(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Pooling;
    use crate::compare::tests::{compared, results};

    #[test]
    fn every_column_and_every_pair_is_there() {
        let of = |kernel, ns| results(kernel, &[(ns, 10_000)]);
        let files = [("a.json", of("a", 9_000)), ("b.json", of("b", 19_000)), ("c.json", of("c", 9_000))];
        let value = report(&compared(&files, Pooling::Each));
        assert_eq!(value["results"][1]["name"], "b");
        assert_eq!(value["results"][1]["runs"][0]["quantiles"]["0.99"], 19_000);
        assert_eq!(value["results"][0]["percent_below_ms"]["0.1"], 100.0);
        let differences = value["differences"].as_array().unwrap();
        assert_eq!(differences.len(), 12);
        assert_eq!((&differences[0]["at"], &differences[0]["second_is"]), (&json!("0.5"), &json!("later")));
        assert_eq!(differences[4]["second_is"], "noise");
    }
}
