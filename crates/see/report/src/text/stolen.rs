//! `stolen` on a terminal: the time that interrupts took, in total and from each task.

use spry_analysis::findings::Findings;
use spry_page::words::{count, duration, percent};

use super::style::{Style, Table};
use super::{ROWS_MAX, or_dash, shown};
use crate::words::{self, share};

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let found = findings.interrupts.as_ref()?;
    let mut kinds = Table::new("interrupt", &["count", "time", "mean", "max", "from tasks"]);
    for interrupt in found.iter().take(ROWS_MAX / 2) {
        kinds.row([
            interrupt.kind.to_string(),
            count(interrupt.time.count),
            duration(interrupt.time.sum_ns),
            or_dash(interrupt.time.mean_ns(), |mean| duration(mean.round() as u64)),
            duration(interrupt.time.max_ns),
            duration(interrupt.stolen_ns),
        ]);
    }
    let mut victims = Table::new("task", &["run", "irq", "softirq", "share", "handlers"]);
    let (tasks, note) = shown(findings, ROWS_MAX / 2);
    for (task, taken) in tasks.iter().filter_map(|task| Some((task, task.interrupted?))) {
        let wall_ns = task.runtime_ns.saturating_add_signed(task.stolen_ns.unwrap_or(0));
        victims.row([
            words::who(&task.who),
            duration(task.runtime_ns),
            duration(taken.irq_ns),
            duration(taken.softirq_ns),
            or_dash(share(taken.irq_ns + taken.softirq_ns, wall_ns), percent),
            count(taken.count),
        ]);
    }
    Some(kinds.render(style) + &victims.render(style) + &note)
}
