//! The summary for a terminal: the thesis' findings, figure by figure, and whether they were found again.

use std::fmt::Write as _;

use crate::claims::{Outcome, Verdict};
use crate::study::Study;

/// The greatest length of a line, in characters.
const COLUMNS: usize = 110;

/// The table of the findings.
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
        let empty = of.iter().filter(|verdict| verdict.cannot_fail.is_some()).count();
        let empty = if empty > 0 { format!(" ({empty} cannot fail)") } else { String::new() };
        _ = writeln!(out, "{scheduler}: {reproduced} of {} findings reproduced{empty}", of.len());
        for verdict in of {
            let sign = match verdict.outcome {
                Outcome::Reproduced => "yes",
                Outcome::NotReproduced => "no",
                Outcome::NotMeasured => "-",
            };
            let empty = verdict.cannot_fail.map(|reason| format!(" It cannot fail: {reason}."));
            let here = format!("Here: {}{}", verdict.because, empty.unwrap_or_default());
            let here = wrapped(&here).into_iter().map(|line| format!("  {line}"));
            for (at, line) in wrapped(verdict.found).into_iter().chain(here).enumerate() {
                let (figure, sign) = if at == 0 { (verdict.figure, sign) } else { ("", "") };
                _ = writeln!(out, "  {figure:<4} {sign:<4} {line}");
            }
        }
    }
    out
}

/// Breaks a text between words into lines of at most this many characters.
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
