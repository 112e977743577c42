//! `quanta` on a terminal: how long tasks kept the CPU each time they got it.

use spry_analysis::findings::Findings;
use spry_analysis::histogram::Histogram;
use spry_page::words::{count, duration};

use super::style::{Style, Table};
use super::{ROWS_MAX, or_dash, shown};
use crate::words;

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let overall = findings.overall.quanta.as_ref()?;
    let mut table = Table::new("task", &["quanta", "a second", "mean", "p50", "p90", "p99", "max"]);
    let line = |name: String, lengths: &Histogram, per_second: Option<f64>| {
        let summary = lengths.summary();
        [
            name,
            count(lengths.count()),
            or_dash(per_second, |per_second| format!("{per_second:.1}")),
            or_dash(summary, |summary| duration(summary.mean.round() as u64)),
            or_dash(summary, |summary| duration(summary.p50)),
            or_dash(summary, |summary| duration(summary.p90)),
            or_dash(summary, |summary| duration(summary.p99)),
            or_dash(summary, |summary| duration(summary.max)),
        ]
    };
    table.row(line("all tasks".into(), overall, None));
    let (tasks, note) = shown(findings, ROWS_MAX);
    for task in tasks {
        if let Some(quanta) = &task.quanta {
            table.row(line(words::who(&task.who), &quanta.lengths, quanta.per_second));
        }
    }
    Some(table.render(style) + &note)
}
