//! The aims for Spry's values, whether they are reached, and whether the paper's findings are found again.

use serde::Serialize;
use spry_page::words::digits;

use super::{CellMeasurement, Part, Study};
use crate::latency::Outcome;
use crate::study::Spread;

/// The aim for one of Spry's values.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// The value is at most this.
    AtMost(f64),
    /// The value is at most this many times the value of the stock system.
    TimesStock(f64),
}

/// Whether an aim is reached.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The aim is reached with every seed.
    Reached,
    /// The aim is missed with one seed at least.
    Missed,
    /// The value, or the stock system's, was not measured.
    Unknown,
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::Unknown => "not measured",
        }
    }
}

impl Aim {
    /// Whether the aim is reached. The worst seed counts.
    pub fn judge(self, spry: Option<Spread>, stock: Option<Spread>) -> Verdict {
        let most = match self {
            Aim::AtMost(most) => Some(most),
            Aim::TimesStock(factor) => stock.map(|stock| factor * stock.high),
        };
        match (spry, most) {
            (Some(spry), Some(most)) if spry.high <= most => Verdict::Reached,
            (Some(_), Some(_)) => Verdict::Missed,
            _ => Verdict::Unknown,
        }
    }

    /// The aim in words.
    pub fn words(self) -> String {
        match self {
            Aim::AtMost(most) => format!("at most {}", digits(most)),
            Aim::TimesStock(factor) => format!("at most {factor} times stock"),
        }
    }
}

/// Values that differ by less than this factor count as alike: the paper's skews differ by a
/// factor of 24 or more.
const TIMES: f64 = 2.0;

/// A finding of the paper: the skew of one system is greater than the skew of another.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Claim {
    words: &'static str,
    by: &'static str,
    load: &'static str,
    greater: &'static str,
    smaller: &'static str,
}

const CLAIMS: [Claim; 3] = [
    Claim {
        words: "a player that goes before all loads is late all the same if the X server does not (figure 2)",
        by: "35 ms and 250 us",
        load: "user",
        greater: "fifo",
        smaller: "fifo-both",
    },
    Claim {
        words: "exact timers and priorities do not help where the kernel is not preempted in a long write \
                (figures 3 and 5)",
        by: "90 and 60 ms, and 400 us",
        load: "kernel",
        greater: "fifo-none",
        smaller: "fifo-both",
    },
    Claim {
        words: "nor where it is not preempted while files are copied (figures 4 and 5)",
        by: "12 and 30 ms, and 500 us",
        load: "file-system",
        greater: "fifo-none",
        smaller: "fifo-both",
    },
];

/// A finding of the paper, and whether it was found again.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// The finding in words.
    pub finding: &'static str,
    /// The paper's values that support the finding.
    pub by: &'static str,
    /// Whether it holds today.
    pub outcome: Outcome,
    /// Today's values.
    pub figures: String,
}

/// All findings about two systems that were measured.
pub fn findings(study: &Study) -> Vec<Finding> {
    CLAIMS.into_iter().filter_map(|claim| decided(study, claim)).collect()
}

fn decided(study: &Study, claim: Claim) -> Option<Finding> {
    let worst = |system| study.spread(system, claim.load, worst_us);
    let (greater, smaller) = (worst(claim.greater)?, worst(claim.smaller)?);
    let outcome = if greater.low > TIMES * smaller.high {
        Outcome::AsThen
    } else if TIMES * greater.high < smaller.low {
        Outcome::Otherwise
    } else {
        Outcome::Alike
    };
    let figures = format!(
        "{} {} us, {} {} us",
        claim.greater,
        digits(greater.median),
        claim.smaller,
        digits(smaller.median)
    );
    Some(Finding { finding: claim.words, by: claim.by, outcome, figures })
}

/// The greatest skew of a film, us.
pub(super) fn worst_us(measured: &CellMeasurement) -> Option<f64> {
    match measured {
        CellMeasurement::Skew(film) => Some(film.worst_us()),
        CellMeasurement::Table(_) => None,
    }
}

/// The system with Spry that is judged, and the stock system that it is compared with.
pub(super) const fn judged(part: Part) -> (&'static str, &'static str) {
    match part {
        Part::Table => ("reserved", "deadline"),
        Part::Skew => ("spry-ceiling", "fifo-both"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::super::{Cell, Film, SYSTEMS, rows};
    use super::*;

    #[test]
    fn the_worst_seed_decides_about_an_aim() {
        let spread = |low, high| Some(Spread { median: low, low, high });
        assert_eq!(Aim::AtMost(5.0).judge(spread(1.0, 5.0), None), Verdict::Reached);
        assert_eq!(Aim::AtMost(5.0).judge(spread(1.0, 5.1), None), Verdict::Missed);
        assert_eq!(Aim::TimesStock(1.3).judge(spread(1.0, 13.0), spread(1.0, 10.0)), Verdict::Reached);
        assert_eq!(Aim::TimesStock(1.3).judge(spread(1.0, 13.1), spread(1.0, 10.0)), Verdict::Missed);
        assert_eq!(Aim::TimesStock(1.3).judge(spread(1.0, 13.1), None), Verdict::Unknown);
        assert_eq!(Aim::AtMost(5.0).judge(None, None), Verdict::Unknown);
    }

    #[test]
    fn every_claim_is_of_systems_that_are_measured() {
        let known = |key| SYSTEMS.iter().any(|system| system.key == key && system.part == Part::Skew);
        for claim in CLAIMS {
            assert!(known(claim.greater) && known(claim.smaller), "{}", claim.words);
        }
        for part in [Part::Table, Part::Skew] {
            let (spry, stock) = judged(part);
            for key in [spry, stock] {
                assert!(SYSTEMS.iter().any(|system| system.key == key && system.part == part), "{key}");
            }
        }
    }

    #[test]
    fn the_paper_s_findings_are_found_in_a_study_that_has_them() {
        let found = findings(&study());
        assert_eq!(found.iter().map(|found| found.outcome).collect::<Vec<_>>(), [Outcome::AsThen; 2]);
        assert!(found[0].figures.contains("fifo 35000 us, fifo-both 120 us"), "{found:?}");
    }

    #[test]
    fn figures_that_differ_by_less_than_half_are_alike() {
        let mut study = study();
        study.cells.retain(|cell| cell.system != "fifo" || cell.load != "user");
        let film = Film { skews_us: vec![200.0], said_ms: None };
        let (system, load) = ("fifo".to_owned(), "user".to_owned());
        study.cells.push(Cell { system, load, seed: 1, measured: CellMeasurement::Skew(film) });
        assert_eq!(findings(&study)[0].outcome, Outcome::Alike);
    }

    #[test]
    fn deviations_are_judged_by_what_the_load_asks_for() {
        let rows = rows(&study());
        let verdict = |load: &str, what: &str| {
            let row = rows.iter().find(|row| row.load == load && row.what.contains(what));
            row.unwrap_or_else(|| panic!("no {what}")).verdict
        };
        assert_eq!(verdict("none", "8192 us: a period begins"), Some(Verdict::Reached));
        assert_eq!(verdict("hogs", "8192 us: a period begins"), Some(Verdict::Missed));
        assert_eq!(verdict("user", "skew of a frame"), Some(Verdict::Missed));
        assert_eq!(verdict("hogs", "8192 us: first"), None);
    }
}
