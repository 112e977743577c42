//! The article's order of its kernels, and whether the present kernels that stand for them have
//! the same order.

use serde::Serialize;
use spry_latency::Results;
use spry_latency::compare::{Column, Difference, Point, judge};
use spry_latency::verdict::verdict;
use spry_page::words::duration;

use super::{KERNELS, Kernel, LoadComparison, RANKED_AT};

/// A claim of the article: one of two kernels had lower latencies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// The point of the distribution at which the two kernels are compared.
    pub at: Point,
    /// The article's kernel with the lower latencies.
    pub earlier: &'static str,
    /// The article's kernel with the higher latencies.
    pub later: &'static str,
    /// The article's values that support the claim.
    pub by: &'static str,
}

/// The claims that follow from the article's values at the compared points.
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

/// Whether the present kernels are in the article's order.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The kernels are in the article's order, and the difference is more than noise.
    AsThen,
    /// The kernels are in the opposite order, and the difference is more than noise.
    Otherwise,
    /// The difference between the kernels may be noise.
    Alike,
    /// There are too few samples to decide.
    Unknown,
}

impl Outcome {
    /// The outcome in words.
    pub const fn words(self) -> &'static str {
        match self {
            Outcome::AsThen => "as then",
            Outcome::Otherwise => "the other way round",
            Outcome::Alike => "alike today",
            Outcome::Unknown => "too few samples to say",
        }
    }
}

/// The outcome of a claim beside a load.
#[derive(Clone, PartialEq, Debug)]
pub struct ClaimResult {
    /// The claim of the article.
    pub claim: Claim,
    /// Whether the claim holds.
    pub outcome: Outcome,
    /// The values of the two kernels.
    pub figures: String,
    /// If the claim does not hold: the reasons in the kernels' traces.
    pub because: Vec<String>,
}

/// The outcome of every claim about two kernels that were measured beside this load.
pub fn found(beside: &LoadComparison) -> Vec<ClaimResult> {
    CLAIMS.into_iter().filter_map(|claim| decided(beside, claim)).collect()
}

fn decided(beside: &LoadComparison, claim: Claim) -> Option<ClaimResult> {
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
        |column: &Column| format!("{} {}", column.name, duration(claim.at.value_ns(&column.summary)));
    let because = match outcome {
        Outcome::AsThen | Outcome::Unknown => Vec::new(),
        Outcome::Otherwise | Outcome::Alike => {
            let words =
                |(column, why): (&Column, &Results)| Some(format!("{}: {}", column.name, verdict(why)?));
            [earlier, later].into_iter().filter_map(words).collect()
        }
    };
    Some(ClaimResult {
        claim,
        outcome,
        figures: format!("{}, {}", figure(earlier.0), figure(later.0)),
        because,
    })
}

impl ClaimResult {
    /// The outcome in a sentence.
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
    fn every_claim_is_of_kernels_that_have_a_stand_in() {
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
