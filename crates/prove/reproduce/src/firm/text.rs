//! The study of firm timers as text.

use std::fmt::Write as _;

use spry_page::words::digits;

use super::published::LEFT_OUT;
use super::{NONE, Row, SYSTEMS, Study, rows};
use crate::boots::Shortfall;
use crate::ends::end_text;
use crate::study::Spread;

/// How long the ray tracer takes alone, in words; empty if it was not measured.
pub(super) fn alone(study: &Study) -> String {
    let seconds = study.spread("hard", NONE, |cell| Some(cell.cost.elapsed_ns as f64 / 1e9));
    seconds.map(|spread| format!("povray alone takes {} s", spread.words())).unwrap_or_default()
}

/// The text of the whole study, with the release of the kernel. It ends with a line feed.
pub fn report(study: &Study, release: &str, undone: &Shortfall) -> String {
    let mut out = format!(
        "Firm timers (Time-Sensitive Linux, Goel and others 2002, 4.3.2) in the lab: Linux {release}, one \
         CPU, one instruction a nanosecond; medians of the seeds, and their spread\n"
    );
    for system in &SYSTEMS {
        _ = writeln!(out, "  {:<10}{}", system.key, system.about);
    }
    _ = writeln!(out, "  {}", alone(study));
    let rows = rows(study);
    let (mut group, mut what) = ("", "");
    for row in &rows {
        if row.group != group {
            _ = writeln!(out, "\n{}", row.group);
            (group, what) = (row.group, "");
        }
        if row.what != what {
            _ = writeln!(out, "  {}", row.what);
            what = row.what;
        }
        _ = writeln!(out, "    {}", line(row));
    }
    end_text(&mut out, &LEFT_OUT, undone);
    out
}

fn line(row: &Row) -> String {
    let measured = row.measured.map_or_else(|| "-".to_owned(), Spread::words);
    let mut line = format!("{:<10}{measured}", row.system.unwrap_or("the lab"));
    if let Some(published) = row.published {
        _ = write!(line, " (the paper {})", digits(published));
    }
    row.verdict.iter().for_each(|verdict| _ = write!(line, ": {}", verdict.words()));
    row.why.iter().for_each(|why| _ = write!(line, ", since {why}"));
    line
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn rows_have_the_paper_s_value_the_verdict_and_a_reason() {
        let undone =
            Shortfall { failures: vec![("soft, 50-10ms, seed 1".into(), "it died".into())], missing: 3 };
        let text = report(&study(), "9-spry-100hz-firm", &undone);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        assert!(at("Figure 6: 20 timer processes") < at("Figure 8: 20 timer processes"));
        at("povray alone takes 10.0 s");
        at("(the paper 1.50): differs, since the lab has no caches");
        at("Costs and break-even");
        at("Failed: soft, 50-10ms, seed 1: it died");
        at("3 cells are not there yet");
    }
}
