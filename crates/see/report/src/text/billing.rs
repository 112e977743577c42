//! `billing` on a terminal: each task's bill under tick sampling, at every rate.

use spry_analysis::findings::Findings;
use spry_page::words::{count, percent};

use super::style::{Style, Table, Tone};
use super::{ROWS_MAX, or_dash, shown};
use crate::words::{self, share};

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    findings.tasks.iter().find(|task| task.billing.is_some())?;
    let mut table = Table::new("task", &["rate", "billed", "over phases", "quanta missed", "by the kernel"]);
    let (tasks, note) = shown(findings, ROWS_MAX / 4);
    for task in tasks {
        for (at, billing) in task.billing.iter().flatten().enumerate() {
            let phases = billing.ratio_min.zip(billing.ratio_max);
            // The kernel samples at its own tick rate only.
            let own = findings.trace.hz == Some(billing.hz);
            let kernel =
                task.kernel.filter(|_| own).and_then(|kernel| share(kernel.ticks_ns, kernel.runtime_ns));
            table.row([
                if at == 0 { words::who(&task.who) } else { String::new() },
                format!("{} Hz", count(u64::from(billing.hz))),
                or_dash(billing.ratio, percent),
                or_dash(phases, |(min, max)| format!("{} to {}", percent(min), percent(max))),
                or_dash(billing.missed_percent, |missed| percent(missed / 100.0)),
                or_dash(kernel, percent),
            ]);
        }
    }
    let legend = "billed: ticks that hit the task times their period, over its run time; by the kernel: \
                  its raw tick samples";
    Some(table.render(style) + &note + &style.wrap(Tone::Faint, 2, legend))
}
