//! The article's printed values for its four kernels (Williams 2002, Results). For each kernel it took five
//! million samples, beside all loads at once.

/// One of the article's kernels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishedKernel {
    /// The kernel's name in the article.
    pub name: &'static str,
    /// The longest latency, ms.
    pub max_ms: f64,
    /// The mean, ms. It is computed from buckets of 100 us, by the middle of each.
    pub mean_ms: f64,
    /// The standard deviation, ms.
    pub sd_ms: f64,
    /// The share of the samples below each threshold: the threshold in ms, the share in percent.
    pub percent_below_ms: &'static [(f64, f64)],
}

/// All four kernels of the article.
pub const PUBLISHED: [PublishedKernel; 4] = [
    PublishedKernel {
        name: "vanilla",
        max_ms: 232.6,
        mean_ms: 0.0883,
        sd_ms: 2.1190,
        percent_below_ms: &[
            (0.1, 92.84442),
            (0.2, 97.08432),
            (0.5, 99.73050),
            (0.7, 99.84382),
            (1.0, 99.94038),
            (5.0, 99.97922),
            (10.0, 99.98096),
            (50.0, 99.98590),
            (100.0, 99.98828),
        ],
    },
    PublishedKernel {
        name: "preempt",
        max_ms: 45.2,
        mean_ms: 0.0529,
        sd_ms: 0.0462,
        percent_below_ms: &[
            (0.1, 97.95326),
            (0.2, 99.55722),
            (0.5, 99.97026),
            (0.7, 99.98960),
            (1.0, 99.99650),
            (5.0, 99.99954),
            (10.0, 99.99982),
        ],
    },
    PublishedKernel {
        name: "low-latency",
        max_ms: 1.3,
        mean_ms: 0.0543,
        sd_ms: 0.0252,
        percent_below_ms: &[
            (0.1, 96.66250),
            (0.2, 99.21158),
            (0.5, 99.99592),
            (0.7, 99.99984),
            (1.0, 99.99992),
        ],
    },
    PublishedKernel {
        name: "preempt + low-latency",
        max_ms: 1.2,
        mean_ms: 0.0520,
        sd_ms: 0.0168,
        percent_below_ms: &[
            (0.1, 98.31268),
            (0.2, 99.76028),
            (0.5, 99.99648),
            (0.7, 99.99978),
            (1.0, 99.99992),
        ],
    },
];

impl PublishedKernel {
    /// The share of the samples below a threshold in ms, percent. Above the printed thresholds it is 100
    /// %.
    pub fn percent_below(&self, threshold_ms: f64) -> f64 {
        let found = self.percent_below_ms.iter().find(|(limit_ms, _)| (limit_ms - threshold_ms).abs() < 1e-9);
        found.map_or(100.0, |(_, percent)| *percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprinted_percentages_lie_beyond_the_longest_latency() {
        for kernel in PUBLISHED {
            let last_ms = kernel.percent_below_ms.last().expect("there are some").0;
            assert!(last_ms < kernel.max_ms, "{}", kernel.name);
            let next_ms = [5.0, 10.0, 50.0, 100.0].into_iter().find(|&ms| ms > last_ms);
            assert!(next_ms.is_none_or(|ms| ms > kernel.max_ms && kernel.percent_below(ms) >= 100.0));
            let percents = kernel.percent_below_ms;
            assert!(percents.windows(2).all(|pair| pair[0].1 < pair[1].1), "{}", kernel.name);
        }
    }
}
