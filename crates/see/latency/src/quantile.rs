//! Quantiles with confidence intervals by order statistics: they assume nothing of the distribution but that
//! samples are independent, which they are not within a burst.

use crate::histogram::Histogram;

/// A quantile is given as a number of parts of this whole.
const WHOLE: u64 = 100_000;
/// The number of samples that must lie beyond a quantile for a meaningful estimate.
const BEYOND_MIN: u64 = 10;
/// The probability that the true value lies beyond one given side of a 95 % interval.
const TAIL: f64 = 0.025;
/// The normal distribution's quantile at 1 - TAIL.
const TAIL_SD: f64 = 1.959_964;
/// From this variance of a binomial distribution, the normal distribution stands for it: the ranks are off
/// by one at most.
const NORMAL_FROM: f64 = 10_000.0;

/// A quantile that is shown: the latency that this part of all samples does not exceed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Quantile {
    parts: u64,
    name: &'static str,
}

/// The quantiles that are shown.
pub const QUANTILES: [Quantile; 6] = [
    Quantile { parts: 50_000, name: "0.5" },
    Quantile { parts: 90_000, name: "0.9" },
    Quantile { parts: 99_000, name: "0.99" },
    Quantile { parts: 99_900, name: "0.999" },
    Quantile { parts: 99_990, name: "0.9999" },
    Quantile { parts: 99_999, name: "0.99999" },
];

impl Quantile {
    /// The quantile's name in JSON: `0.99999`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Per cent: `99.999`.
    pub fn percent(self) -> f64 {
        self.parts as f64 * 100.0 / WHOLE as f64
    }

    /// The number of samples that the quantile's estimate needs.
    pub fn needs(self) -> u64 {
        BEYOND_MIN * WHOLE / (WHOLE - self.parts)
    }

    /// The rank of the quantile's estimate among `count` samples.
    fn rank(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.parts)).div_ceil(u128::from(WHOLE)) as u64
    }

    /// The lower and the upper rank that enclose the quantile with 95 % confidence; `None` for a side on
    /// which there are too few samples.
    fn enclosing(self, count: u64) -> (Option<u64>, Option<u64>) {
        let beyond = (WHOLE - self.parts) as f64 / WHOLE as f64;
        let (few, many) = binomial_tails(count, beyond);
        // At most `few` samples lie beyond in 2.5 % of cases, and more than `many` in as many.
        let high = few.map(|few| count - few);
        let low = count.checked_sub(many).filter(|&rank| rank > 0);
        (low, high)
    }
}

/// Two numbers of successes in `count` trials that each succeed with this probability (at most a half). The
/// first is the greatest number such that this many successes or fewer have a probability of at most
/// [`TAIL`]; `None` if even 0 successes are more probable. The second is the least number such that more
/// successes have a probability of at most [`TAIL`].
fn binomial_tails(count: u64, probability: f64) -> (Option<u64>, u64) {
    let mean = count as f64 * probability;
    let variance = mean * (1.0 - probability);
    if variance > NORMAL_FROM {
        let off = TAIL_SD * variance.sqrt();
        return (Some((mean - off - 0.5).floor() as u64), (mean + off - 0.5).ceil() as u64);
    }
    let odds_ln = probability.ln() - (-probability).ln_1p();
    let mut term_ln = count as f64 * (-probability).ln_1p();
    let mut cumulated = 0.0;
    let mut few = None;
    for successes in 0..=count {
        cumulated += term_ln.exp();
        if cumulated <= TAIL {
            few = Some(successes);
        }
        if cumulated >= 1.0 - TAIL {
            return (few, successes);
        }
        term_ln += ((count - successes) as f64 / (successes + 1) as f64).ln() + odds_ln;
    }
    (few, count)
}

/// A quantile's estimate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// The quantile that is estimated.
    pub quantile: Quantile,
    /// The estimate, ns.
    pub value_ns: u64,
    /// The beginning of the 95 % interval, ns; `None` if nothing bounds it.
    pub low_ns: Option<u64>,
    /// The end of the 95 % interval, ns; `None` if nothing bounds it, since there are too few samples.
    pub high_ns: Option<u64>,
    /// The number of samples.
    pub count: u64,
}

impl Estimate {
    /// The estimate from a distribution; `None` if it is empty.
    pub fn of(histogram: &Histogram, quantile: Quantile) -> Option<Estimate> {
        let count = histogram.count();
        let value_ns = histogram.ranked_ns(quantile.rank(count))?;
        let (low, high) = quantile.enclosing(count);
        let at = |rank: Option<u64>| histogram.ranked_ns(rank?);
        Some(Estimate { quantile, value_ns, low_ns: at(low), high_ns: at(high), count })
    }

    /// The warning that there are too few samples for this quantile; `None` if there are enough.
    pub fn warning(&self) -> Option<String> {
        let needed = self.quantile.needs();
        (self.count < needed).then(|| {
            format!(
                "{} samples are too few for the {} % quantile: {} needed, so that {BEYOND_MIN} lie beyond it",
                spry_page::words::count(self.count),
                self.quantile.percent(),
                spry_page::words::count(needed)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE_NINES: Quantile = QUANTILES[5];

    #[test]
    fn intervals_of_the_median_are_those_of_the_tables() {
        // The intervals of the sign test: of 10 samples the 2nd and the 9th, of 20 the 6th and the 15th, of
        // 100 the 40th and the 61st.
        for (count, low, high) in [(10, 2, 9), (20, 6, 15), (100, 40, 61)] {
            assert_eq!(QUANTILES[0].enclosing(count), (Some(low), Some(high)), "{count}");
        }
        assert_eq!(QUANTILES[0].enclosing(5), (None, None));
    }

    #[test]
    fn exact_and_normal_ranks_agree_where_they_meet() {
        for quantile in QUANTILES {
            let beyond = 1.0 - quantile.parts as f64 / WHOLE as f64;
            let count = (NORMAL_FROM / beyond / (1.0 - beyond)) as u64;
            let (few, many) = binomial_tails(count - 1, beyond);
            let (few_after, many_after) = binomial_tails(count + 2, beyond);
            assert!(few.unwrap().abs_diff(few_after.unwrap()) <= 2, "{}", quantile.name());
            assert!(many.abs_diff(many_after) <= 2, "{}", quantile.name());
        }
    }

    #[test]
    fn the_tails_of_few_successes_are_poissons() {
        // Mean 10: P(X <= 3) = 0.0103, P(X <= 4) = 0.0293; P(X <= 16) = 0.9730, P(X <= 17) = 0.9857.
        assert_eq!(binomial_tails(1_000_000, 1e-5), (Some(3), 17));
        // Mean 3: P(X = 0) = 0.0498.
        assert_eq!(binomial_tails(300_000, 1e-5).0, None);
    }

    #[test]
    fn five_nines_need_a_million_samples() {
        assert_eq!(FIVE_NINES.needs(), 1_000_000);
        let mut histogram = Histogram::default();
        histogram.record_many(5_000, 122_880);
        let estimate = Estimate::of(&histogram, FIVE_NINES).unwrap();
        assert_eq!(estimate.high_ns, None);
        let words = estimate.warning().unwrap();
        assert!(
            words.starts_with("122,880 samples are too few for the 99.999 % quantile: 1,000,000 needed"),
            "{words}"
        );
        histogram.record_many(5_000, 1_000_000);
        let estimate = Estimate::of(&histogram, FIVE_NINES).unwrap();
        assert_eq!((estimate.low_ns, estimate.high_ns, estimate.warning()), (Some(5_000), Some(5_000), None));
    }

    #[test]
    fn ranks_are_counted_without_rounding() {
        assert_eq!(
            QUANTILES.map(|quantile| quantile.rank(100_000)),
            [50_000, 90_000, 99_000, 99_900, 99_990, 99_999]
        );
        assert_eq!(QUANTILES[1].rank(11), 10);
        assert_eq!(FIVE_NINES.rank(1), 1);
    }

    #[test]
    fn an_interval_holds_the_true_quantile_as_often_as_stated() {
        // A fixed sequence of equally likely latencies of 0 to 99.99 us: the true 99 % quantile is 99 us.
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 10_000 * 10
        };
        let mut held = 0;
        for _ in 0..400 {
            let mut histogram = Histogram::default();
            (0..3_000).for_each(|_| histogram.record(draw()));
            let estimate = Estimate::of(&histogram, QUANTILES[2]).unwrap();
            held += u32::from(estimate.low_ns.unwrap() <= 99_000 && estimate.high_ns.unwrap() >= 98_990);
        }
        assert!((372..=400).contains(&held), "{held} of 400, 380 or some more expected");
    }
}
