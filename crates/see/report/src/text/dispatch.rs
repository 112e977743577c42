//! `dispatch` on a terminal: from the run queue to the CPU, for all waits and for waits after preemptions.

use spry_analysis::findings::Findings;
use spry_analysis::histogram::Histogram;
use spry_page::words::{count, duration, percent};

use super::style::{Style, Table};
use super::{ROWS_MAX, or_dash, shown};
use crate::words;

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    if findings.tasks.iter().all(|task| task.dispatch.is_none()) {
        return None;
    }
    let mut table = Table::new(
        "task",
        &["waits", "mean", "p50", "p99", "p99.9", "max", "after preemption", "wait share"],
    );
    let line = |name: String, all: Option<&Histogram>, preempted: Option<u64>, wait_share: Option<f64>| {
        let summary = all.and_then(Histogram::summary);
        [
            name,
            or_dash(all, |all| count(all.count())),
            or_dash(summary, |summary| duration(summary.mean.round() as u64)),
            or_dash(summary, |summary| duration(summary.p50)),
            or_dash(summary, |summary| duration(summary.p99)),
            or_dash(summary, |summary| duration(summary.p999)),
            or_dash(summary, |summary| duration(summary.max)),
            or_dash(preempted, count),
            or_dash(wait_share, percent),
        ]
    };
    table.row(line("all tasks".into(), findings.overall.dispatch.as_ref(), None, None));
    let (tasks, note) = shown(findings, ROWS_MAX);
    for task in tasks {
        if let Some(dispatch) = &task.dispatch {
            let preempted = Some(dispatch.preemption.count());
            table.row(line(words::who(&task.who), dispatch.all.as_ref(), preempted, dispatch.wait_share));
        }
    }
    Some(table.render(style) + &note)
}
