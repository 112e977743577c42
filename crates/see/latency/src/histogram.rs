//! Distributions of latencies to three digits, in constant memory, with decimal edges.
//!
//! Buckets are 10 ns wide below 100 us, and 9,000 to each decade above (100 ns wide to 1 ms, and so
//! on). The edges of the article's 100 us buckets below 1 s are edges of these buckets. So are the
//! edges of cyclictest's 1 us buckets below 10 ms, and every threshold of a percent. A conversion
//! therefore loses nothing.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Width of the first buckets, ns.
pub(crate) const FINEST_NS: u64 = 10;
/// The end of the first buckets, ns.
const FINE_END_NS: u64 = 100_000;
const FINE_BUCKETS: usize = (FINE_END_NS / FINEST_NS) as usize;
const DECADE_BUCKETS: usize = 9_000;
/// Decades above the first buckets; they end at 100 s.
const DECADES: u32 = 6;
/// The number of buckets; the last bucket takes all latencies beyond the decades.
pub(crate) const BUCKETS: usize = FINE_BUCKETS + DECADES as usize * DECADE_BUCKETS + 1;
const LAST: usize = BUCKETS - 1;
/// The width over which the mode is taken, ns: a finer width shows chance, not the most frequent latency.
const MODE_WIDTH_NS: u64 = 1_000;

/// The bucket of a latency.
#[inline]
pub(crate) fn bucket_of(latency_ns: u64) -> usize {
    if latency_ns < FINE_END_NS { (latency_ns / FINEST_NS) as usize } else { coarse_bucket_of(latency_ns) }
}

#[cold]
fn coarse_bucket_of(latency_ns: u64) -> usize {
    let (mut start_ns, mut first) = (FINE_END_NS, FINE_BUCKETS);
    for _ in 0..DECADES {
        if latency_ns < start_ns * 10 {
            return first + ((latency_ns - start_ns) / (start_ns / 1_000)) as usize;
        }
        start_ns *= 10;
        first += DECADE_BUCKETS;
    }
    LAST
}

/// The buckets between two latencies, both included; none if the first is longer.
pub(crate) fn occupied(min_ns: u64, max_ns: u64) -> Range<usize> {
    if min_ns > max_ns { 0..0 } else { bucket_of(min_ns)..bucket_of(max_ns) + 1 }
}

/// The beginning of a bucket and its width, ns. The last bucket's width is unknown: 0.
fn edges(bucket: usize) -> (u64, u64) {
    if bucket < FINE_BUCKETS {
        return (bucket as u64 * FINEST_NS, FINEST_NS);
    }
    let coarse = bucket - FINE_BUCKETS;
    let start_ns = FINE_END_NS * 10u64.pow((coarse / DECADE_BUCKETS) as u32);
    if bucket == LAST {
        return (start_ns, 0);
    }
    let width_ns = start_ns / 1_000;
    (start_ns + (coarse % DECADE_BUCKETS) as u64 * width_ns, width_ns)
}

/// A range of latencies that are not distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// The shortest latency that the bucket takes, ns.
    pub low_ns: u64,
    /// The bucket's width, ns; 0 for the last bucket, which takes everything from 100 s.
    pub width_ns: u64,
    /// How many latencies the bucket holds.
    pub count: u64,
}

impl Bucket {
    /// The middle, ns; its beginning where the width is unknown.
    pub fn middle_ns(&self) -> f64 {
        self.low_ns as f64 + self.width_ns as f64 / 2.0
    }
}

/// A distribution of latencies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "StoredHistogram", try_from = "StoredHistogram")]
pub struct Histogram {
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0, counts: vec![0; BUCKETS] }
    }
}

impl Histogram {
    /// A histogram that was counted elsewhere. The counts are of all buckets in order, and none lies outside
    /// of minimum and maximum.
    pub(crate) fn of_counts(counts: Vec<u64>, sum_ns: u64, min_ns: u64, max_ns: u64) -> Histogram {
        assert_eq!(counts.len(), BUCKETS, "every bucket is counted");
        let count = counts[occupied(min_ns, max_ns)].iter().sum();
        Histogram { count, sum_ns, min_ns, max_ns, counts }
    }

    /// Counts a latency.
    pub fn record(&mut self, latency_ns: u64) {
        self.record_many(latency_ns, 1);
    }

    /// Counts several equal latencies.
    pub fn record_many(&mut self, latency_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.counts[bucket_of(latency_ns)] += count;
        self.count += count;
        self.sum_ns = self.sum_ns.saturating_add(latency_ns.saturating_mul(count));
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    /// Adds the latencies of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for at in other.occupied() {
            self.counts[at] += other.counts[at];
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The shortest latency, exactly, ns; `None` if there are none.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min_ns)
    }

    /// The longest latency, exactly, ns; `None` if there are none.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max_ns)
    }

    /// The mean latency, exactly, ns; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The variance of the sample (over its count less 1, as the article has it), ns^2; within a thousandth
    /// of each latency. `None` if there are fewer than two.
    pub fn variance_ns2(&self) -> Option<f64> {
        let mean_ns = self.mean_ns().filter(|_| self.count > 1)?;
        let squares = self.buckets().map(|bucket| {
            let off_ns = bucket.middle_ns().clamp(self.min_ns as f64, self.max_ns as f64) - mean_ns;
            off_ns * off_ns * bucket.count as f64
        });
        Some(squares.sum::<f64>() / (self.count - 1) as f64)
    }

    /// The middle of the microsecond that has the most latencies, ns; the first, if several have as many.
    /// `None` if there are no latencies.
    ///
    /// Buckets that are wider than a microsecond count by how dense they are.
    pub fn mode_ns(&self) -> Option<u64> {
        let mut best: Option<(f64, u64)> = None;
        let mut grouped = 0;
        let mut group_ns = u64::MAX;
        for bucket in self.buckets() {
            let start_ns = bucket.low_ns / MODE_WIDTH_NS * MODE_WIDTH_NS;
            grouped = if start_ns == group_ns { grouped + bucket.count } else { bucket.count };
            group_ns = start_ns;
            let width_ns = bucket.width_ns.max(MODE_WIDTH_NS);
            let density = grouped as f64 / width_ns as f64;
            if best.is_none_or(|(most, _)| density > most) {
                best = Some((density, start_ns + width_ns / 2));
            }
        }
        best.map(|(_, mode_ns)| mode_ns.clamp(self.min_ns, self.max_ns))
    }

    /// The latency of that rank, ns: 1 is the shortest. `None` if there are fewer latencies.
    ///
    /// It is the middle of its bucket; the first and the last are exact.
    pub fn ranked_ns(&self, rank: u64) -> Option<u64> {
        if rank == 0 || rank > self.count {
            return None;
        }
        if rank == self.count {
            return Some(self.max_ns);
        }
        if rank == 1 {
            return Some(self.min_ns);
        }
        let mut below = 0;
        for bucket in self.buckets() {
            below += bucket.count;
            if below >= rank {
                return Some((bucket.low_ns + bucket.width_ns / 2).clamp(self.min_ns, self.max_ns));
            }
        }
        None
    }

    /// The number of latencies shorter than `limit_ns`. It is exact if `limit_ns` is an edge of a bucket;
    /// otherwise the latencies of that bucket are left out.
    pub fn count_below(&self, limit_ns: u64) -> u64 {
        let occupied = self.occupied();
        let end = bucket_of(limit_ns).clamp(occupied.start, occupied.end);
        self.counts[occupied.start..end].iter().sum()
    }

    /// The buckets from the first to the last that have any latencies: most of the table is empty.
    fn occupied(&self) -> Range<usize> {
        occupied(self.min_ns, self.max_ns)
    }

    /// The part of the latencies that is shorter than `limit_ns`, per cent; `None` if there are no latencies.
    pub fn percent_below(&self, limit_ns: u64) -> Option<f64> {
        (self.count > 0).then(|| 100.0 * self.count_below(limit_ns) as f64 / self.count as f64)
    }

    /// The buckets that have any latencies, in order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        self.occupied().filter(|&at| self.counts[at] > 0).map(|at| {
            let (low_ns, width_ns) = edges(at);
            Bucket { low_ns, width_ns, count: self.counts[at] }
        })
    }
}

/// A distribution as it is kept in a file: occupied buckets alone, each by its beginning.
#[derive(Serialize, Deserialize)]
struct StoredHistogram {
    count: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    counts: Vec<(u64, u64)>,
}

impl From<Histogram> for StoredHistogram {
    fn from(histogram: Histogram) -> StoredHistogram {
        StoredHistogram {
            count: histogram.count,
            sum_ns: histogram.sum_ns,
            min_ns: histogram.min_ns(),
            max_ns: histogram.max_ns(),
            counts: histogram.buckets().map(|bucket| (bucket.low_ns, bucket.count)).collect(),
        }
    }
}

impl TryFrom<StoredHistogram> for Histogram {
    type Error = String;

    fn try_from(stored: StoredHistogram) -> Result<Histogram, String> {
        let mut counts = vec![0; BUCKETS];
        for (low_ns, count) in stored.counts {
            let bucket = bucket_of(low_ns);
            if edges(bucket).0 != low_ns || counts[bucket] != 0 {
                return Err(format!("no bucket begins at {low_ns} ns, or two do"));
            }
            counts[bucket] = count;
        }
        let summed = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        if summed != Some(stored.count) {
            return Err(format!("the buckets do not hold the {} samples they should", stored.count));
        }
        let (min_ns, max_ns) = match (stored.min_ns, stored.max_ns) {
            (Some(min_ns), Some(max_ns)) if stored.count > 0 => (min_ns, max_ns),
            (None, None) if stored.count == 0 => (u64::MAX, 0),
            _ => return Err("a minimum and a maximum are there exactly if there are samples".to_owned()),
        };
        let ends = (counts.iter().position(|&count| count > 0), counts.iter().rposition(|&count| count > 0));
        if let (Some(first), Some(last)) = ends {
            if (first, last) != (bucket_of(min_ns), bucket_of(max_ns)) {
                return Err("the minimum and the maximum are not in the first and the last bucket".to_owned());
            }
        }
        Ok(Histogram::of_counts(counts, stored.sum_ns, min_ns, max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    #[test]
    fn every_bucket_holds_its_edges_and_nothing_beyond() {
        for bucket in 0..LAST {
            let (low_ns, width_ns) = edges(bucket);
            assert_eq!(bucket_of(low_ns), bucket);
            assert_eq!(bucket_of(low_ns + width_ns - 1), bucket);
            assert_eq!(edges(bucket + 1).0, low_ns + width_ns);
            assert!(width_ns <= (low_ns / 1_000).max(FINEST_NS), "three digits at {low_ns} ns");
        }
        assert_eq!(edges(LAST).0, 100_000_000_000);
        assert_eq!(bucket_of(u64::MAX), LAST);
    }

    #[test]
    fn edges_of_the_article_and_of_cyclictest_are_edges_here() {
        let is_edge = |ns: u64| edges(bucket_of(ns)).0 == ns;
        assert!((0..10_000).all(|article| is_edge(article * 100_000)));
        assert!((0..10_000).all(|us| is_edge(us * 1_000)));
    }

    #[test]
    fn moments_are_those_computed_by_hand() {
        let histogram = of(&[2_000, 4_000, 4_000, 4_000, 5_000, 5_000, 7_000, 9_000]);
        assert_eq!(histogram.mean_ns(), Some(5_000.0));
        // The squares of the distances from the mean: 9, 1, 1, 1, 0, 0, 4, 16 = 32 us^2, over 7.
        let variance = histogram.variance_ns2().unwrap();
        assert!((variance / (32e6 / 7.0) - 1.0).abs() < 0.003, "{variance}");
        assert_eq!(histogram.mode_ns(), Some(4_500));
        assert_eq!((histogram.min_ns(), histogram.max_ns()), (Some(2_000), Some(9_000)));
        assert_eq!(histogram.percent_below(5_000), Some(50.0));
        assert_eq!(histogram.percent_below(5_010), Some(75.0));
    }

    #[test]
    fn ranks_count_from_the_shortest() {
        let histogram = of(&[10_000, 20_000, 30_000, 250_000_000_000]);
        let ranked: Vec<_> = (0..=5).map(|rank| histogram.ranked_ns(rank)).collect();
        assert_eq!(ranked, [None, Some(10_000), Some(20_005), Some(30_005), Some(250_000_000_000), None]);
    }

    #[test]
    fn nothing_has_no_figures() {
        let none = Histogram::default();
        assert_eq!((none.min_ns(), none.max_ns(), none.mean_ns()), (None, None, None));
        assert_eq!((none.mode_ns(), none.ranked_ns(1), none.percent_below(1)), (None, None, None));
        assert_eq!(of(&[5]).variance_ns2(), None);
    }

    #[test]
    fn the_mode_of_wide_buckets_is_by_density() {
        // A bucket of 10 us with 30 latencies has 3 a microsecond; the microsecond from 100 us has 4.
        let mut histogram = of(&[100_000, 100_200, 100_400, 100_900]);
        histogram.record_many(50_000_000, 30);
        assert_eq!(histogram.mode_ns(), Some(100_500));
    }

    #[test]
    fn a_sum_of_two_is_as_if_counted_together() {
        let (some, others) = ([1, 100, 123_456, 7_000_000], [99, 100_000_000_001, 3]);
        let mut merged = of(&some);
        merged.merge(&of(&others));
        assert_eq!(merged, of(&[some.as_slice(), &others].concat()));
    }

    #[test]
    fn a_stored_histogram_reads_back_and_a_changed_one_is_refused() {
        let histogram = of(&[1, 15, 123_456, 1_000_000, 100_000_000_001]);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        let empty = serde_json::to_string(&Histogram::default()).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&empty).unwrap(), Histogram::default());
        for (from, to) in
            [("[123400,1]", "[123456,1]"), ("[10,1]", "[10,2]"), ("\"min_ns\":1,", "\"min_ns\":40,")]
        {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            assert!(serde_json::from_str::<Histogram>(&changed).is_err(), "{changed}");
        }
    }
}
