//! The study of scheduler latency as text.

use std::fmt::Write as _;

use spry_latency::compare::RULE;
use spry_latency::verdict::verdict;

use super::{HEADS, KERNELS, RANKED_AT, Study, culprit, culprits, found, notes, order, ranks, row};
use crate::boots::Shortfall;

/// The text of the whole study. It ends with a line feed.
pub fn report(study: &Study, undone: &Shortfall) -> String {
    let mut out =
        "Scheduler latency (Williams 2002) in the lab: one CPU, one instruction a nanosecond\n".to_owned();
    for kernel in &KERNELS {
        if let Some(release) = study.release(kernel) {
            let preempt = kernel.preempt.map(|model| format!(", preempt={model}")).unwrap_or_default();
            let stands =
                kernel.stands_for.map(|name| format!("; in the place of {name}")).unwrap_or_default();
            _ = writeln!(out, "  {:<18}Linux {release}{preempt}{stands}", kernel.key);
        }
    }
    for (load, beside) in study.loads() {
        let comparison = &beside.comparison;
        _ = writeln!(out, "\nBeside {}, {}", load.key, load.stands_for);
        line(&mut out, "place", &HEADS.map(str::to_owned));
        for (place, column) in ranks(comparison, RANKED_AT) {
            line(&mut out, &place.to_string(), &row(column));
        }
        _ = writeln!(out, "  {}: {}", RANKED_AT.words(), order(comparison, RANKED_AT));
        for found in found(&beside) {
            _ = writeln!(out, "  The article {}", found.words());
        }
        for (column, why) in beside.kernels() {
            _ = writeln!(out, "  {}: {}", column.name, verdict(why).unwrap_or_default());
            culprits(why).iter().for_each(|found| _ = writeln!(out, "    {}", culprit(found)));
            notes(column, why).iter().for_each(|note| _ = writeln!(out, "    Note: {note}"));
        }
    }
    _ = writeln!(out, "\n{RULE}");
    undone.end_text(&mut out);
    out
}

fn line(out: &mut String, place: &str, cells: &[String]) {
    let (name, figures) = cells.split_first().expect("a row begins with a name");
    _ = write!(out, "  {place:<7}{name:<18}");
    figures.iter().for_each(|cell| _ = write!(out, "{cell:>12}"));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn kernels_are_listed_by_place_above_the_article_s_order() {
        let undone =
            Shortfall { failures: vec![("newest-full, fs, seed 1".into(), "it died".into())], missing: 3 };
        let text = report(&study(), &undone);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
        assert!(at("Beside ttcp") < at("Beside fs"));
        assert!(at("  1      stable-") < at("  3      stable-none"));
        at("stable-voluntary  Linux Linux of stable-voluntary, preempt=voluntary; \
             in the place of low-latency");
        at("The article at max: low-latency earlier than preempt (1.3 and 45.2 ms): as then");
        at("Failed: newest-full, fs, seed 1: it died");
        at("3 cells are not there yet");
    }
}
