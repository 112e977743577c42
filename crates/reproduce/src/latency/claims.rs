//! What the article found of its kernels' order, and whether today's, which stand in their places, are in the same.

use serde::Serialize;
use spry_latency::Results;
use spry_latency::compare::{Column, Difference, Point, judge};
use spry_latency::verdict::verdict;
use spry_latency::words::duration;

use super::{Beside, KERNELS, Kernel, RANKED_AT};

/// A pair of the article's kernels of which one was earlier.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// Where they are held against each other.
    pub at: Point,
    /// The earlier one.
    pub earlier: &'static str,
    /// The later one.
    pub later: &'static str,
    /// By which figures.
    pub by: &'static str,
}

/// What follows from the article's figures at the points that are compared.
pub const CLAIMS: [Claim; 4] = [
    Claim {
        at: RANKED_AT,
        earlier: "low-latency",
        later: "vanilla",
        by: "99.21 and 97.08 % of samples below 0.2 ms",
    },
    Claim {
        at: RANKED_AT,
        earlier: "preempt",
        later: "vanilla",
        by: "99.56 and 97.08 % of samples below 0.2 ms",
    },
    Claim { at: Point::Max, earlier: "low-latency", later: "preempt", by: "1.3 and 45.2 ms" },
    Claim { at: Point::Max, earlier: "preempt", later: "vanilla", by: "45.2 and 232.6 ms" },
];

/// Whether today's kernels are in the article's order.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// They are, by more than noise.
    AsThen,
    /// They are in the other order, by more than noise.
    Otherwise,
    /// What lies between them may be noise.
    Alike,
    /// There are too few samples to say.
    Unknown,
}

impl Outcome {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Outcome::AsThen => "as then",
            Outcome::Otherwise => "the other way round",
            Outcome::Alike => "alike today",
            Outcome::Unknown => "too few samples to say",
        }
    }
}

/// What became of a claim beside a load.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The claim.
    pub claim: Claim,
    /// Whether it holds.
    pub outcome: Outcome,
    /// The two kernels' figures.
    pub figures: String,
    /// Where it does not hold: what their traces say.
    pub because: Vec<String>,
}

/// Every claim whose kernels were measured beside this load.
pub fn found(beside: &Beside) -> Vec<Found> {
    CLAIMS.into_iter().filter_map(|claim| decided(beside, claim)).collect()
}

fn decided(beside: &Beside, claim: Claim) -> Option<Found> {
    let measured = |name: &str| {
        let stands = |kernel: &&Kernel| kernel.stands_for == Some(name);
        let key = KERNELS.iter().find(stands)?.key;
        beside.kernels().find(|(column, _)| column.name == key)
    };
    let (earlier, later) = (measured(claim.earlier)?, measured(claim.later)?);
    let outcome = match judge(earlier.0, later.0, claim.at) {
        Difference::Later => Outcome::AsThen,
        Difference::Earlier => Outcome::Otherwise,
        Difference::Noise => Outcome::Alike,
        Difference::Unknown => Outcome::Unknown,
    };
    let figure =
        |column: &Column| format!("{} {}", column.name, duration(claim.at.value_ns(&column.summary) as f64));
    let because = match outcome {
        Outcome::AsThen | Outcome::Unknown => Vec::new(),
        Outcome::Otherwise | Outcome::Alike => {
            let words =
                |(column, why): (&Column, &Results)| Some(format!("{}: {}", column.name, verdict(why)?));
            [earlier, later].into_iter().filter_map(words).collect()
        }
    };
    Some(Found { claim, outcome, figures: format!("{}, {}", figure(earlier.0), figure(later.0)), because })
}

impl Found {
    /// In a sentence.
    pub fn words(&self) -> String {
        let Claim { at, earlier, later, by } = self.claim;
        format!(
            "at {}: {earlier} earlier than {later} ({by}): {} ({})",
            at.words(),
            self.outcome.words(),
            self.figures
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, study};
    use super::super::{Study, found};
    use super::*;

    #[test]
    fn every_claim_is_of_kernels_that_somebody_stands_for() {
        for claim in CLAIMS {
            for name in [claim.earlier, claim.later] {
                assert!(KERNELS.iter().any(|kernel| kernel.stands_for == Some(name)), "{name}");
                assert!(super::super::PUBLISHED.iter().any(|published| published.name == name), "{name}");
            }
        }
    }

    #[test]
    fn the_article_s_order_is_found_again_where_it_is_there() {
        let found = found(&study().beside("fs").expect("there are cells"));
        assert!(found.iter().all(|found| found.outcome == Outcome::AsThen), "{found:?}");
        assert!(found[2].words().contains("stable-voluntary 9.50 us, stable-full 24.0 us"), "{found:?}");
    }

    #[test]
    fn another_order_is_told_from_none_and_from_too_few_samples() {
        let cells = vec![
            cell("stable-none", "fs", 1, &[(9_000, 50_000), (20_000, 30)]),
            cell("stable-full", "fs", 1, &[(9_000, 50_000), (24_000, 60)]),
            cell("stable-none", "ttcp", 1, &[(9_000, 20)]),
            cell("stable-full", "ttcp", 1, &[(5_000, 20)]),
        ];
        let study = Study { cells };
        let outcomes = |load: &str| -> Vec<Outcome> {
            found(&study.beside(load).expect("there are cells")).iter().map(|found| found.outcome).collect()
        };
        assert_eq!(outcomes("fs"), [Outcome::Alike, Outcome::Otherwise]);
        assert_eq!(outcomes("ttcp"), [Outcome::Unknown, Outcome::AsThen]);
    }
}
