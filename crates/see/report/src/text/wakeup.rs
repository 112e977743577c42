//! `wakeup` on a terminal: the parts of wake-up latency, and the tasks that had the CPU meanwhile.

use spry_analysis::findings::Findings;
use spry_analysis::histogram::Histogram;
use spry_page::words::{count, duration};

use super::style::{Style, Table, Tone};
use super::{ROWS_MAX, or_dash, shown};
use crate::words;

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let found = findings.wakeup.as_ref()?;
    let mut table = Table::new("part", &["count", "mean", "p50", "p99", "max", "group"]);
    let parts: [(&str, Option<&Histogram>, &str); 7] = [
        ("deadline to timer handler", found.timer.as_ref(), "timer"),
        ("timer handler to waking", found.expiry.as_ref(), "timer"),
        ("waking to run queue", Some(&found.enqueue), ""),
        ("waking to need-resched", found.resched.as_ref(), "resched"),
        ("need-resched to switch", found.switch.as_ref(), "resched"),
        ("waking to switch", Some(&found.total), ""),
        ("deadline to switch", found.deadline_to_switch.as_ref(), "timer"),
    ];
    for (name, part, group) in parts {
        let summary = part.and_then(Histogram::summary);
        table.row([
            name.to_owned(),
            or_dash(part, |part| count(part.count())),
            or_dash(summary, |summary| duration(summary.mean.round() as u64)),
            or_dash(summary, |summary| duration(summary.p50)),
            or_dash(summary, |summary| duration(summary.p99)),
            or_dash(summary, |summary| duration(summary.max)),
            if part.is_none() { format!("needs {group}") } else { group.to_owned() },
        ]);
    }
    let mut culprits = Table::new("had the CPU meanwhile", &["for"]);
    let had = || found.culprits.iter().take(ROWS_MAX / 2);
    for culprit in had() {
        culprits.row([words::party(&culprit.party), duration(culprit.ran_ns)]);
    }
    let idle = words::idle_note(findings, had().map(|culprit| &culprit.party));
    let idle = idle.map_or_else(String::new, |note| style.wrap(Tone::Faint, 2, note));
    let mut by_task = Table::new("task", &["wake-ups", "mean to switch", "max to switch"]);
    let (tasks, note) = shown(findings, ROWS_MAX / 2);
    for (task, parts) in tasks.iter().filter_map(|task| Some((task, task.wakeup.as_ref()?))) {
        let total = &parts.total;
        let mean = or_dash(total.mean_ns(), |mean| duration(mean.round() as u64));
        let max = or_dash((total.count > 0).then_some(total.max_ns), duration);
        by_task.row([words::who(&task.who), count(total.count), mean, max]);
    }
    Some(table.render(style) + &culprits.render(style) + &idle + &by_task.render(style) + &note)
}
