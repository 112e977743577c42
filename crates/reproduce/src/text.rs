//! The summary for a terminal: what the thesis found, figure by figure, and whether it was found again.

use std::fmt::Write as _;

use crate::claims::{Outcome, Verdict};
use crate::study::Study;

/// Where a line ends.
const COLUMNS: usize = 110;

/// The table.
pub fn summary(study: &Study, verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    if let Some(other) = study.other_machine() {
        _ = writeln!(out, "{other}");
    }
    for scheduler in &study.schedulers {
        let of: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.scheduler == *scheduler).collect();
        if of.is_empty() {
            continue;
        }
        let reproduced = of.iter().filter(|verdict| verdict.outcome == Outcome::Reproduced).count();
        _ = writeln!(out, "{scheduler}: {reproduced} of {} findings reproduced", of.len());
        for verdict in of {
            let sign = match verdict.outcome {
                Outcome::Reproduced => "yes",
                Outcome::NotReproduced => "no",
                Outcome::NotMeasured => "-",
            };
            let here =
                wrapped(&format!("Here: {}", verdict.because)).into_iter().map(|line| format!("  {line}"));
            for (at, line) in wrapped(verdict.found).into_iter().chain(here).enumerate() {
                let (figure, sign) = if at == 0 { (verdict.figure, sign) } else { ("", "") };
                _ = writeln!(out, "  {figure:<4} {sign:<4} {line}");
            }
        }
    }
    out
}

/// Lines of at most so many characters, broken between words.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() + 15 <= COLUMNS => {
                line.push(' ');
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
