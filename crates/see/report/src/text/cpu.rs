//! `cpu` on a terminal: the times of each CPU, and the CPUs on which each task ran.

use spry_analysis::findings::Findings;
use spry_page::words::{count, duration, duration_f64, percent};

use super::style::{Style, Table};
use super::{ROWS_MAX, or_dash, shown};
use crate::words::{self, share};

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let mut table = Table::new(
        "CPU",
        &["busy", "idle", "unknown", "irq", "stolen", "switches", "ticks", "in", "out", "lost"],
    );
    for cpu in &findings.cpus {
        table.row([
            cpu.cpu.to_string(),
            duration(cpu.busy_ns),
            duration(cpu.idle_ns),
            duration(cpu.unknown_ns),
            or_dash(cpu.irq_ns, duration),
            or_dash(cpu.stolen_ns, |ns| duration_f64(ns as f64)),
            count(cpu.switches),
            or_dash(cpu.ticks, count),
            or_dash(cpu.migrations_in, count),
            or_dash(cpu.migrations_out, count),
            or_dash(findings.trace.lost_by_cpu.get(usize::from(cpu.cpu)), |&lost| count(lost)),
        ]);
    }
    let mut places = Table::new("task", &["run", "moves"]).and_text("where");
    let (tasks, note) = shown(findings, ROWS_MAX);
    for task in tasks {
        let Some(shares) = &task.cpu_shares else { continue };
        let parts: Vec<String> = shares
            .iter()
            .map(|part| {
                let cpu = part.cpu.map_or_else(|| "others".to_owned(), |cpu| format!("CPU {cpu}"));
                format!("{cpu} {}", or_dash(share(part.runtime_ns, task.runtime_ns), percent))
            })
            .collect();
        places.row([
            words::who(&task.who),
            duration(task.runtime_ns),
            or_dash(task.migrations, count),
            parts.join(", "),
        ]);
    }
    Some(table.render(style) + &places.render(style) + &note)
}
