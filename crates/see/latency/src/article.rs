//! Statistics in the article's way: over buckets of 100 us, each latency taken for the middle of its bucket
//! (Williams 2002, Results).

use std::collections::BTreeMap;

use crate::histogram::Histogram;
use crate::summary::THRESHOLDS;

/// The width of the article's buckets, ns.
pub const BUCKET_NS: u64 = 100_000;
const BUCKETS_PER_MS: f64 = 10.0;

/// The figures that the article prints of a histogram.
#[derive(Clone, PartialEq, Debug)]
pub struct Article {
    /// How many buckets have any samples.
    pub buckets: usize,
    /// The number of samples.
    pub samples: u64,
    /// The beginning of the last bucket that has any samples, ms.
    pub max_ms: f64,
    /// The mean, ms: each latency counts as the middle of its bucket.
    pub mean_ms: f64,
    /// The median, ms, by the middle of its bucket.
    pub median_ms: f64,
    /// The middle of the bucket with most samples, ms.
    pub mode_ms: f64,
    /// The number of samples in the mode's bucket.
    pub mode_count: u64,
    /// Variance of the sample, ms^2: over the count less 1; `None` for a single sample.
    pub variance_ms2: Option<f64>,
    /// The root of the variance, ms.
    pub sd_ms: Option<f64>,
    /// Pairs of a threshold, ms, and the part of the samples below it, per cent. The thresholds go up to the
    /// last bucket that has any samples; the last threshold is that bucket's end, with 100 per cent.
    pub percent_below_ms: Vec<(f64, f64)>,
}

impl Article {
    /// The article's statistics of a distribution; `None` if it is empty.
    pub fn of(histogram: &Histogram) -> Option<Article> {
        let mut counts = BTreeMap::new();
        for bucket in histogram.buckets() {
            *counts.entry(bucket.low_ns / BUCKET_NS).or_default() += bucket.count;
        }
        Article::of_counts(&counts)
    }

    /// The article's statistics of samples counted by bucket; bucket 0 holds latencies below 100 us. `None`
    /// if there are no samples.
    pub fn of_counts(counts: &BTreeMap<u64, u64>) -> Option<Article> {
        let occupied =
            || counts.iter().filter(|(_, count)| **count > 0).map(|(&bucket, &count)| (bucket, count));
        let (last, _) = occupied().next_back()?;
        let samples: u64 = occupied().map(|(_, count)| count).sum();
        let edge_ms = |bucket: u64| bucket as f64 / BUCKETS_PER_MS;
        let middle_ms = |bucket: u64| (bucket as f64 + 0.5) / BUCKETS_PER_MS;
        let mean_ms =
            occupied().map(|(bucket, count)| middle_ms(bucket) * count as f64).sum::<f64>() / samples as f64;
        let squares = occupied().map(|(bucket, count)| (middle_ms(bucket) - mean_ms).powi(2) * count as f64);
        let variance_ms2 = (samples > 1).then(|| squares.sum::<f64>() / (samples - 1) as f64);
        let below = |limit: u64| {
            occupied().filter(|&(bucket, _)| bucket < limit).map(|(_, count)| count).sum::<u64>()
        };
        let median = occupied().map(|(bucket, _)| bucket).find(|&bucket| 2 * below(bucket + 1) >= samples)?;
        // If several buckets are as frequent, the first of them is the mode.
        let (mode, mode_count) = occupied().rev().max_by_key(|&(_, count)| count)?;
        let percent = |count: u64| 100.0 * count as f64 / samples as f64;
        let thresholds =
            THRESHOLDS.iter().map(|&(_, limit_ns)| limit_ns / BUCKET_NS).filter(|&limit| limit <= last);
        let mut percent_below_ms: Vec<(f64, f64)> =
            thresholds.map(|limit| (edge_ms(limit), percent(below(limit)))).collect();
        percent_below_ms.push((edge_ms(last + 1), 100.0));
        Some(Article {
            buckets: occupied().count(),
            samples,
            max_ms: edge_ms(last),
            mean_ms,
            median_ms: middle_ms(median),
            mode_ms: middle_ms(mode),
            mode_count,
            variance_ms2,
            sd_ms: variance_ms2.map(f64::sqrt),
            percent_below_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[u64]) -> BTreeMap<u64, u64> {
        counts.iter().enumerate().map(|(bucket, &count)| (bucket as u64, count)).collect()
    }

    fn is_near(one: f64, other: f64, relative: f64) -> bool {
        (one - other).abs() <= relative * other.abs()
    }

    /// A histogram with all figures that the article prints of the kernel with both patches. The percents fix
    /// most buckets; mean and variance fix the sums over the others.
    const BOTH: [u64; 13] = [4_915_634, 72_380, 9_006, 2_314, 490, 83, 82, 0, 0, 7, 1, 1, 2];
    /// A histogram with all figures that the article prints of the low-latency kernel.
    const LOW_LATENCY: [u64; 14] = [4_833_125, 127_454, 32_927, 5_642, 648, 98, 98, 1, 2, 1, 0, 0, 1, 3];

    #[test]
    fn the_articles_figures_of_both_patches_follow_from_its_rule() {
        let article = Article::of_counts(&counts(&BOTH)).unwrap();
        assert_eq!((article.buckets, article.samples), (11, 5_000_000));
        assert!(is_near(article.max_ms, 1.2, 1e-12));
        // The printed mean has the errors of five million additions in it.
        assert!(is_near(article.mean_ms, 0.0520061799956548, 1e-10), "{}", article.mean_ms);
        assert_eq!((article.median_ms, article.mode_ms, article.mode_count), (0.05, 0.05, 4_915_634));
        // The variance divides by N - 1; divided by N it would be off by 2e-7.
        let (variance_ms2, sd_ms) = (article.variance_ms2.unwrap(), article.sd_ms.unwrap());
        assert!(is_near(variance_ms2, 0.000282321298762259, 1e-8), "{variance_ms2}");
        assert!(is_near(sd_ms, 0.0168024194318038, 1e-8), "{sd_ms}");
        let printed = [
            (0.1, 98.31268),
            (0.2, 99.76028),
            (0.5, 99.99648),
            (0.7, 99.99978),
            (1.0, 99.99992),
            (1.3, 100.0),
        ];
        assert_eq!(article.percent_below_ms.len(), printed.len());
        for (found, printed) in article.percent_below_ms.iter().zip(printed) {
            assert!(
                is_near(found.0, printed.0, 1e-12) && is_near(found.1, printed.1, 1e-12),
                "{found:?} {printed:?}"
            );
        }
    }

    #[test]
    fn the_article_s_low_latency_figures_follow_from_its_rule() {
        let article = Article::of_counts(&counts(&LOW_LATENCY)).unwrap();
        assert_eq!((article.buckets, article.samples), (12, 5_000_000));
        assert!(is_near(article.max_ms, 1.3, 1e-12));
        assert!(is_near(article.mean_ms, 0.0542797399957571, 1e-10), "{}", article.mean_ms);
        let sd_ms = article.sd_ms.unwrap();
        assert!(is_near(sd_ms, 0.025220506601371, 1e-8), "{sd_ms}");
        let percents: Vec<f64> = article.percent_below_ms.iter().map(|(_, percent)| *percent).collect();
        let printed = [96.66250, 99.21158, 99.99592, 99.99984, 99.99992, 100.0];
        assert!(
            percents.iter().zip(printed).all(|(&found, printed)| is_near(found, printed, 1e-12)),
            "{percents:?}"
        );
    }

    #[test]
    fn a_fine_histogram_fills_the_article_s_buckets_without_loss() {
        let mut histogram = Histogram::default();
        for (bucket, &count) in BOTH.iter().enumerate() {
            // Any place within the bucket: its first nanosecond, its last, and one between.
            for (nth, place_ns) in [0, 99_999, 12_345].into_iter().enumerate() {
                let share = count / 3 + u64::from((nth as u64) < count % 3);
                histogram.record_many(bucket as u64 * BUCKET_NS + place_ns, share);
            }
        }
        assert_eq!(Article::of(&histogram), Article::of_counts(&counts(&BOTH)));
    }

    #[test]
    fn one_sample_has_no_spread_and_none_has_nothing() {
        let one = Article::of_counts(&counts(&[1])).unwrap();
        assert_eq!((one.variance_ms2, one.sd_ms), (None, None));
        assert_eq!(Article::of(&Histogram::default()), None);
    }
}
