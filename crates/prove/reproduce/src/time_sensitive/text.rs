//! The study of Time-Sensitive Linux as text.

use std::fmt::Write as _;

use spry_page::words::digits;

use super::published::LEFT_OUT;
use super::{LOADS, Part, Row, SYSTEMS, Study, findings, rows};
use crate::boots::Shortfall;
use crate::ends::end_text;

/// The heads of the parts.
pub(super) const fn head(part: Part) -> &'static str {
    match part {
        Part::Table => "Table 1: budgets in periods",
        Part::Skew => "Figures 2 to 5: sound and picture of MPlayer on an X server",
    }
}

/// The aim and the verdict on it, in words.
pub(super) fn aim(row: &Row) -> String {
    match (row.aim, row.verdict) {
        (Some(aim), Some(verdict)) => format!("{}: {}", aim.words(), verdict.words()),
        _ => String::new(),
    }
}

/// The text of the whole study. It ends with a line feed.
pub fn report(study: &Study, undone: &Shortfall) -> String {
    let mut out = "Time-Sensitive Linux (Goel and others 2002) in the lab: one CPU, one instruction a \
                   nanosecond; medians of the seeds, and their spread\n"
        .to_owned();
    let rows = rows(study);
    for part in [Part::Table, Part::Skew] {
        let of: Vec<&Row> = rows.iter().filter(|row| row.part == part).collect();
        if of.is_empty() {
            continue;
        }
        _ = writeln!(out, "\n{}", head(part));
        for system in SYSTEMS.iter().filter(|system| system.part == part) {
            _ = writeln!(out, "  {:<16}{}", system.key, system.about);
        }
        for load in LOADS.iter().filter(|load| load.part == part) {
            let beside: Vec<&&Row> = of.iter().filter(|row| row.load == load.key).collect();
            if !beside.is_empty() {
                _ = writeln!(out, "\n  Beside {}: {}", load.key, load.about);
            }
            for row in beside {
                line(&mut out, row);
            }
        }
    }
    let findings = findings(study);
    if !findings.is_empty() {
        out += "\nWhat the paper found\n";
    }
    for found in findings {
        _ = writeln!(
            out,
            "  {} ({}): {} ({})",
            found.finding,
            found.by,
            found.outcome.words(),
            found.figures
        );
    }
    end_text(&mut out, &LEFT_OUT, undone);
    out
}

fn line(out: &mut String, row: &Row) {
    _ = writeln!(out, "    {}", row.what);
    let published = row.published.iter().map(|(system, us)| format!("{} ({system})", digits(*us)));
    let published = published.collect::<Vec<_>>().join(", ");
    if !published.is_empty() {
        _ = writeln!(out, "      {:<16}{published}", "the paper");
    }
    for (system, spread) in &row.systems {
        _ = writeln!(out, "      {system:<16}{}", spread.words());
    }
    if row.aim.is_some() {
        _ = writeln!(out, "      {:<16}{}", "Spry", aim(row));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn the_paper_s_values_precede_today_s_and_the_verdict_follows() {
        let undone =
            Shortfall { failures: vec![("spry, user, seed 2".into(), "it died".into())], missing: 3 };
        let text = report(&study(), &undone);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        assert!(at("the paper       5.00 (TSL)") < at("deadline        6.50 (6.00 to 7.00)"));
        at("Spry            at most 5.00: reached");
        at("Spry            at most 1.3 times stock: missed");
        at("(figure 2) (35 ms and 250 us): as then (fifo 35000 us, fifo-both 120 us)");
        at("Failed: spry, user, seed 2: it died");
        at("3 cells are not there yet");
    }
}
