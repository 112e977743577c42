//! Results as the JSON that `spry latency --json` prints.

use serde_json::{Map, Value, json};

use crate::article::Article;
use crate::histogram::Histogram;
use crate::results::{End, Results};
use crate::summary::Summary;
use crate::verdict::verdict;

/// The whole report. A value that is not known is `null`, and so are the figures of no samples and of parts
/// that were not measured. Lists and objects are always present, so that a program can read any report.
pub fn report(results: &Results) -> Value {
    let parts = results.parts();
    let is_split = parts.is_some();
    let parts = parts.unwrap_or_default();
    let raw = results.raw();
    let worst = results.worst();
    let machine = &results.machine;
    let mut report = json!({
        "missed": results.missed(),
        "max_at_s": worst.map(|worst| worst.at_ns as f64 / 1e9),
        "max_at_unix_ns": worst.map(|worst| worst.at_unix_ns),
        "max_cpu": worst.and_then(|worst| worst.cpu),
        "corrected": summary(&results.corrected()),
        "article": Article::of(&raw).as_ref().map(article),
        "split": is_split,
        "parts": named(parts.named().map(|(name, part)| (name, is_split.then(|| summary(part)).into()))),
        "threshold_ns": results.threshold_ns,
        "culprits": results.culprits.as_deref().unwrap_or_default(),
        "verdict": verdict(results),
        "threads": results.threads.iter().map(|thread| json!({
            "cpu": thread.cpu,
            "samples": thread.latency.count(),
            "missed": thread.omitted.count(),
            "min_ns": thread.latency.min_ns(),
            "mean_ns": thread.latency.mean_ns(),
            "max_ns": thread.latency.max_ns(),
        })).collect::<Vec<_>>(),
        "kernel": machine.kernel,
        "arch": machine.arch,
        "preemption": machine.preemption,
        "scheduler": machine.scheduler,
        "source": results.source.name(),
        "rate_hz": results.rate_hz,
        "priority": results.priority,
        "load": results.load,
        "notes": results.lacks,
        "began_unix_ns": results.began_unix_ns,
        "elapsed_s": results.elapsed_ns as f64 / 1e9,
        "interrupted": results.end == End::Interrupted,
    });
    // The figures of the latencies stand at the top level of the report.
    if let (Value::Object(report), Value::Object(figures)) = (&mut report, summary(&raw)) {
        report.extend(figures);
    }
    report
}

fn named(values: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    Value::Object(values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// A distribution's figures.
pub fn summary(histogram: &Histogram) -> Value {
    let summary = Summary::of(histogram);
    let summary = summary.as_ref();
    let quantiles = || summary.iter().flat_map(|summary| &summary.quantiles);
    json!({
        "samples": histogram.count(),
        "min_ns": summary.map(|summary| summary.min_ns),
        "mean_ns": summary.map(|summary| summary.mean_ns),
        "median_ns": summary.map(|summary| summary.median_ns),
        "mode_ns": summary.map(|summary| summary.mode_ns),
        "variance_ns2": summary.and_then(|summary| summary.variance_ns2),
        "sd_ns": summary.and_then(|summary| summary.sd_ns),
        "max_ns": summary.map(|summary| summary.max_ns),
        "quantiles": named(quantiles().map(|estimate| (estimate.quantile.name(), json!(estimate.value_ns)))),
        "quantile_intervals": named(quantiles().map(|estimate| {
            (estimate.quantile.name(), json!([estimate.low_ns, estimate.high_ns]))
        })),
        "too_few_samples": quantiles().filter_map(|estimate| estimate.warning()).collect::<Vec<_>>(),
        "percent_below_ms": named(
            summary
                .iter()
                .flat_map(|summary| &summary.percent_below)
                .map(|&(name, percent)| (name, json!(percent))),
        ),
    })
}

fn article(article: &Article) -> Value {
    json!({
        "buckets": article.buckets,
        "max_ms": article.max_ms,
        "mean_ms": article.mean_ms,
        "median_ms": article.median_ms,
        "mode_ms": article.mode_ms,
        "mode_count": article.mode_count,
        "variance_ms2": article.variance_ms2,
        "sd_ms": article.sd_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{MeasuredMachine, SampledThread};
    use crate::source::Source;
    use crate::split::PartHistograms;

    fn results(latency: Histogram) -> Results {
        let thread =
            SampledThread { cpu: None, latency, omitted: Histogram::default(), max_at_ns: 5, parts: None };
        let mut results = Results::new(MeasuredMachine::default(), Source::Timerfd, 1_000, 0);
        results.threads.push(thread);
        results
    }

    #[test]
    fn the_names_are_those_that_programs_were_promised() {
        let mut latency = Histogram::default();
        latency.record_many(12_345, 1_000);
        let mut results = results(latency);
        results.threads[0].parts = Some(PartHistograms::default());
        let report = report(&results);
        for name in ["samples", "missed", "min_ns", "mean_ns", "median_ns", "mode_ns", "sd_ns", "max_ns"] {
            assert!(report[name].is_number(), "{name}: {report}");
        }
        for quantile in ["0.5", "0.9", "0.99", "0.999", "0.9999", "0.99999"] {
            assert!(report["quantiles"][quantile].is_number(), "{quantile}: {report}");
        }
        assert_eq!(report["percent_below_ms"]["0.1"], 100.0);
        for part in ["timer_ns", "irq_ns", "preemption_ns", "scheduling_ns", "unseen_ns"] {
            assert_eq!(report["parts"][part]["samples"], 0, "{part}: {report}");
        }
    }

    #[test]
    fn unmeasured_parts_and_culprits_have_their_places() {
        let report = report(&results(Histogram::default()));
        assert_eq!(report["split"], false);
        assert_eq!(report["threshold_ns"], Value::Null);
        assert_eq!(report["culprits"], json!([]));
        let parts = report["parts"].as_object().unwrap();
        assert_eq!(parts.len(), 5);
        assert!(parts.values().all(Value::is_null), "{report}");
    }

    #[test]
    fn no_samples_have_no_figures() {
        let report = report(&results(Histogram::default()));
        assert_eq!(
            (&report["samples"], &report["max_ns"], &report["article"]),
            (&json!(0), &Value::Null, &Value::Null)
        );
    }
}
