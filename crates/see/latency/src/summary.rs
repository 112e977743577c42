//! The figures that are shown of a distribution.

use crate::histogram::Histogram;
use crate::quantile::{Estimate, QUANTILES};

/// Thresholds of the table of percents, ms, as the article has them; with their names in JSON.
pub const THRESHOLDS: [(&str, u64); 9] = [
    ("0.1", 100_000),
    ("0.2", 200_000),
    ("0.5", 500_000),
    ("0.7", 700_000),
    ("1", 1_000_000),
    ("5", 5_000_000),
    ("10", 10_000_000),
    ("50", 50_000_000),
    ("100", 100_000_000),
];

/// The figures that are shown of a distribution that is not empty.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The number of latencies.
    pub count: u64,
    /// The shortest latency, ns; exact.
    pub min_ns: u64,
    /// The mean latency, ns; exact.
    pub mean_ns: f64,
    /// The median latency, ns.
    pub median_ns: u64,
    /// The middle of the most frequent microsecond, ns.
    pub mode_ns: u64,
    /// The sample's variance, ns^2; `None` for a single latency.
    pub variance_ns2: Option<f64>,
    /// The root of the variance, ns.
    pub sd_ns: Option<f64>,
    /// The longest latency, ns; exact.
    pub max_ns: u64,
    /// The estimates of [`QUANTILES`].
    pub quantiles: Vec<Estimate>,
    /// The part of the latencies below each of [`THRESHOLDS`], per cent; exact.
    pub percent_below: Vec<(&'static str, f64)>,
}

impl Summary {
    /// The figures of a distribution; `None` if it is empty.
    pub fn of(histogram: &Histogram) -> Option<Summary> {
        let quantiles = QUANTILES.iter().map(|&quantile| Estimate::of(histogram, quantile));
        let quantiles = quantiles.collect::<Option<Vec<_>>>()?;
        let below =
            THRESHOLDS.iter().map(|&(name, limit_ns)| Some((name, histogram.percent_below(limit_ns)?)));
        let variance_ns2 = histogram.variance_ns2();
        Some(Summary {
            count: histogram.count(),
            min_ns: histogram.min_ns()?,
            mean_ns: histogram.mean_ns()?,
            median_ns: quantiles.first()?.value_ns,
            mode_ns: histogram.mode_ns()?,
            variance_ns2,
            sd_ns: variance_ns2.map(f64::sqrt),
            max_ns: histogram.max_ns()?,
            quantiles,
            percent_below: below.collect::<Option<Vec<_>>>()?,
        })
    }

    /// A warning for each quantile with too few samples.
    pub fn warnings(&self) -> Vec<String> {
        self.quantiles.iter().filter_map(Estimate::warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_those_of_what_is_strictly_below() {
        let mut histogram = Histogram::default();
        [99_999, 100_000, 199_999, 5_000_000].iter().for_each(|&ns| histogram.record(ns));
        let summary = Summary::of(&histogram).unwrap();
        let percents: Vec<f64> = summary.percent_below.iter().map(|(_, percent)| *percent).collect();
        assert_eq!(percents, [25.0, 75.0, 75.0, 75.0, 75.0, 75.0, 100.0, 100.0, 100.0]);
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(&Histogram::default()), None);
    }
}
