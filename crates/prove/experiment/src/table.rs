//! Results as tables for a terminal: each load has a row, each scheduler has a column.

use std::fmt::Write as _;

use crate::metric::{Format, Metric};
use crate::model::{Load, Results, Sample, load_words};

/// The format of the values of one metric.
pub(crate) fn format(results: &Results, metric: &Metric) -> Format {
    Format::of(metric, samples(results, metric).map(|sample| sample.max()).fold(0.0, f64::max))
}

fn samples<'a>(results: &'a Results, metric: &'a Metric) -> impl Iterator<Item = Sample> + 'a {
    let cells = results.schedulers().into_iter();
    let loads = results.loads();
    cells.flat_map(move |scheduler| {
        let loads = loads.clone();
        loads.into_iter().filter_map(move |load| results.sample(scheduler, load, metric))
    })
}

/// The heading of a metric's table: the metric, the number that is its whole, and its unit, if any.
pub(crate) fn heading(results: &Results, metric: &Metric) -> String {
    let mut text = metric.words();
    if let Some(whole) = results.whole(metric) {
        _ = write!(text, " of {whole}");
    }
    let unit = format(results, metric).unit();
    if !unit.is_empty() {
        _ = write!(text, ", {unit}");
    }
    text
}

/// Whether a metric has a table of its own. A metric has none if another metric's heading shows
/// it as its whole.
pub(crate) fn is_shown(results: &Results, metric: &Metric) -> bool {
    let told = |shown: &Metric| shown.whole().as_ref() == Some(metric) && results.whole(shown).is_some();
    !metric.is_whole() || !results.metrics().iter().any(told)
}

/// All tables, between the run's description before them and the failures and the digests after them.
pub fn text(results: &Results) -> String {
    let mut out = introduction(results);
    for metric in results.metrics().iter().filter(|metric| is_shown(results, metric)) {
        out.push('\n');
        out += &one(results, metric);
    }
    if !results.failures.is_empty() {
        out += "\nThese cells came to nothing:\n";
        for failure in &results.failures {
            let load = load_words(&failure.vary);
            let comma = if load.is_empty() { "" } else { ", " };
            let error = failure.error.replace('\n', "\n    ");
            _ = writeln!(out, "  {}, {load}{comma}seed {}: {error}", failure.scheduler, failure.seed);
        }
    }
    _ = writeln!(out, "\ndigest {}  (inputs {})", short(&results.digest), short(&results.inputs.hash));
    out
}

/// The first digits of a hash.
pub fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn introduction(results: &Results) -> String {
    let mut out = format!("{} on {}, kernel {}", results.scenario, results.machine, results.kernel);
    if results.inputs.is_recorded() {
        out += ", recorded (recording changes what happens: compare with recorded runs only)";
    }
    out.push('\n');
    match results.seeds() {
        0 => out += "No cell has figures.\n",
        1 => out += "One seed: the spread is unknown.\n",
        seeds => {
            _ = writeln!(out, "Median of {seeds} seeds, smallest and largest in brackets where they differ.")
        }
    }
    out
}

fn one(results: &Results, metric: &Metric) -> String {
    let format = format(results, metric);
    let schedulers = results.schedulers();
    let mut rows = vec![first_row(results, &schedulers)];
    for load in results.loads() {
        let mut row = vec![row_name(load)];
        row.extend(schedulers.iter().map(|scheduler| {
            results
                .sample(scheduler, load, metric)
                .map_or_else(|| "-".to_owned(), |sample| format.with_spread(&sample))
        }));
        rows.push(row);
    }
    format!("{}\n{}", heading(results, metric), aligned(&rows))
}

fn first_row(results: &Results, schedulers: &[&str]) -> Vec<String> {
    let loads = results.loads();
    let keys = loads.first().map(|load| load.keys().cloned().collect::<Vec<_>>().join(", "));
    let mut row = vec![keys.unwrap_or_default()];
    row.extend(schedulers.iter().map(|&name| name.to_owned()));
    row
}

/// The values of a load. The head of their column shows the names of the variables.
pub(crate) fn row_name(load: &Load) -> String {
    let values = load.values().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    values.collect::<Vec<_>>().join(", ")
}

/// Aligns columns, two spaces apart: the first column to the left, the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let length = |text: &String| text.chars().count();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            if at == 0 {
                _ = write!(line, "{cell:<width$}");
            } else {
                _ = write!(line, "  {cell:>width$}");
            }
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}
