//! `marks` on a terminal: programs' own events in order.

use spry_analysis::findings::Findings;
use spry_page::words::count;

use super::ROWS_MAX;
use super::style::{Style, Table, Tone};
use crate::words::{self, moment};

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let found = findings.marks.as_ref()?;
    let mut table = Table::new("task", &["at", "CPU"]).and_text("mark");
    for mark in found.list.iter().take(ROWS_MAX) {
        table.row([
            words::who(&mark.who),
            moment(mark.time_ns),
            mark.cpu.to_string(),
            words::plain(&mark.text),
        ]);
    }
    let note = format!(
        "{} of {} marks shown; the JSON report has the first 10,000.",
        found.list.len().min(ROWS_MAX),
        count(found.count)
    );
    Some(table.render(style) + &style.wrap(Tone::Faint, 2, &note))
}
