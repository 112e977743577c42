//! Mean, standard deviation and order statistics of samples.

/// The statistics of samples, in the unit of the samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stats {
    /// How many samples there are.
    pub count: usize,
    /// The mean of the samples.
    pub mean: f64,
    /// The standard deviation of the sample: its divisor is the count less 1. One sample has none.
    pub sd: Option<f64>,
    /// The least sample.
    pub min: f64,
    /// The median. For an even count it is the mean of the middle two samples.
    pub median: f64,
    /// The greatest sample.
    pub max: f64,
}

impl Stats {
    /// The statistics of these samples; `None` if there are none.
    pub fn of(samples: &[f64]) -> Option<Stats> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let count = sorted.len();
        let mean = sorted.iter().sum::<f64>() / count as f64;
        let squares: f64 = sorted.iter().map(|sample| (sample - mean).powi(2)).sum();
        let sd = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        Some(Stats { count, mean, sd, min, median, max })
    }

    /// The standard error of the mean; `None` for one sample.
    pub fn standard_error(&self) -> Option<f64> {
        self.sd.map(|sd| sd / (self.count as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_computed_by_hand() {
        let stats = Stats::of(&[9.0, 2.0, 4.0, 4.0, 5.0, 4.0, 5.0, 7.0]).unwrap();
        assert_eq!((stats.count, stats.mean, stats.min, stats.median, stats.max), (8, 5.0, 2.0, 4.5, 9.0));
        assert!((stats.sd.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!((stats.standard_error().unwrap() - (4.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_sample_has_no_spread_and_none_has_nothing() {
        let stats = Stats::of(&[3.0]).unwrap();
        assert_eq!((stats.sd, stats.standard_error(), stats.median), (None, None, 3.0));
        assert_eq!(Stats::of(&[]), None);
    }
}
