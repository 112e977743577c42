//! The study of scheduler latency as JSON.

use serde_json::{Value, json};
use spry_latency::Results;
use spry_latency::compare::Column;
use spry_latency::json::summary;
use spry_latency::verdict::verdict;

use super::{KERNELS, LoadComparison, PUBLISHED, RANKED_AT, Study, culprits, found, notes, ranks};
use crate::boots::Shortfall;

/// The whole study, without its inputs.
pub fn report(study: &Study, undone: &Shortfall) -> Value {
    let kernels = KERNELS.iter().filter_map(|kernel| {
        let release = study.release(kernel)?;
        let together = study.together(kernel).map(|histogram| summary(&histogram));
        Some(json!({
            "kernel": kernel.key,
            "release": release,
            "preempt": kernel.preempt,
            "stands_for": kernel.stands_for,
            "all_loads": together,
        }))
    });
    let published = PUBLISHED.iter().map(|kernel| {
        json!({
            "kernel": kernel.name,
            "max_ms": kernel.max_ms,
            "mean_ms": kernel.mean_ms,
            "sd_ms": kernel.sd_ms,
            "percent_below_ms": kernel
                .percent_below_ms
                .iter()
                .map(|(ms, percent)| (ms.to_string(), json!(percent)))
                .collect::<Value>(),
        })
    });
    json!({
        "reproduce": "scheduler-latency",
        "machine": "lab",
        "kernels": kernels.collect::<Vec<_>>(),
        "loads": study.loads().iter().map(|(load, measured)| beside(load.key, measured)).collect::<Vec<_>>(),
        "article": published.collect::<Vec<_>>(),
        "failures": undone.failures,
        "missing": undone.missing,
    })
}

fn beside(load: &str, beside: &LoadComparison) -> Value {
    let ranking = ranks(&beside.comparison, RANKED_AT);
    let ranking = ranking.iter().map(|(place, column)| json!({ "place": place, "kernel": column.name }));
    let claims = found(beside).into_iter().map(|found| {
        json!({
            "at": found.claim.at.name(),
            "earlier": found.claim.earlier,
            "later": found.claim.later,
            "by": found.claim.by,
            "outcome": found.outcome,
            "figures": found.figures,
            "because": found.because,
        })
    });
    json!({
        "load": load,
        "ranked_at": RANKED_AT.name(),
        "ranking": ranking.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
        "kernels": beside.kernels().map(measured).collect::<Vec<_>>(),
    })
}

fn measured((column, why): (&Column, &Results)) -> Value {
    let culprits = culprits(why).iter().map(|culprit| {
        json!({
            "task": culprit.task,
            "how": culprit.how,
            "stack": culprit.stack,
            "count": culprit.count,
            "total_ns": culprit.total_ns,
            "worst_ns": culprit.worst_ns,
        })
    });
    let runs = column.runs.iter().map(|run| {
        json!({
            "seed": run.file.trim_start_matches("seed "),
            "p99_ns": RANKED_AT.value_ns(&run.summary),
            "max_ns": run.summary.max_ns,
        })
    });
    let mut value = json!({
        "kernel": column.name,
        "preemption": column.results.machine.preemption,
        "missed": column.results.missed(),
        "verdict": verdict(why),
        "culprits": culprits.collect::<Vec<_>>(),
        "notes": notes(column, why),
        "runs": runs.collect::<Vec<_>>(),
    });
    if let (Value::Object(value), Value::Object(figures)) = (&mut value, summary(&column.histogram)) {
        value.extend(figures);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn programs_find_places_claims_and_figures() {
        let value = report(&study(), &Shortfall::default());
        let fs = &value["loads"][1];
        assert_eq!((&fs["load"], &fs["ranking"][2]["kernel"]), (&json!("fs"), &json!("stable-none")));
        assert_eq!(
            (&fs["claims"][0]["outcome"], &fs["claims"][0]["at"]),
            (&json!("as_then"), &json!("0.99"))
        );
        assert_eq!(fs["kernels"][0]["runs"][1]["max_ns"], 4_500_000);
        assert!(fs["kernels"][0]["quantiles"]["0.999"].is_number(), "{fs}");
        assert_eq!(value["article"][0]["percent_below_ms"]["0.1"], 92.84442);
        assert_eq!(value["kernels"][0]["all_loads"]["samples"], 101_400);
    }
}
