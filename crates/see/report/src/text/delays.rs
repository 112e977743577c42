//! `delays` on a terminal: the longest waits, and the victims and culprits with the most time.

use spry_analysis::findings::{Blame, Delays, Findings};
use spry_page::words::{count, duration};

use super::ROWS_MAX;
use super::style::{Style, Table, Tone};
use crate::words::{self, moment};

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let found = findings.delays.as_ref()?;
    let mut text = style.wrap(Tone::Heading, 2, &words::verdict(findings));
    text += &worst(found, ROWS_MAX, style);
    for delay in found.worst.iter().filter(|delay| !delay.culprit_stack.is_empty()).take(3) {
        let frames: Vec<String> = delay.culprit_stack.iter().map(|frame| words::plain(frame)).collect();
        let intro = format!(
            "The last culprit before {} left the CPU in {}.",
            words::who(&delay.victim),
            frames.join(" < ")
        );
        text += &style.wrap(Tone::Faint, 2, &intro);
    }
    text += &style.heading("delays and their causes");
    let shown = || found.blame.iter().take(ROWS_MAX);
    text += &blame(shown(), style);
    if let Some(note) = words::idle_note(findings, shown().map(|blame| &blame.culprit)) {
        text += &style.wrap(Tone::Faint, 2, note);
    }
    Some(text)
}

/// The longest waits, one line each.
pub(super) fn worst(found: &Delays, rows: usize, style: Style) -> String {
    let mut table = Table::new("victim", &["waited", "at", "CPU"]).and_text("because");
    for delay in found.worst.iter().take(rows) {
        table.row([
            words::who(&delay.victim),
            duration(delay.wait_ns),
            moment(delay.start_ns),
            delay.cpu.to_string(),
            format!("{}; {}", words::culprits(delay), words::cause(&delay.cause)),
        ]);
    }
    table.render(style)
}

/// The table of victims and culprits: one pair a line.
pub(super) fn blame<'a>(blames: impl Iterator<Item = &'a Blame>, style: Style) -> String {
    let mut table = Table::new("victim", &["lost", "waits"]).and_text("to");
    for blame in blames {
        table.row([
            words::who(&blame.victim),
            duration(blame.total_ns),
            count(blame.waits),
            words::party(&blame.culprit),
        ]);
    }
    table.render(style)
}
