//! Distributions of durations in bounded memory, exact while small and within 0.8 % when dense.
//!
//! Buckets are log-linear: 64 to each power of two, so a bucket's middle is within 1/128 of every value in
//! it. A distribution starts as a short list of exact values and becomes a short sorted list of buckets. It
//! then earns a dense table (of the octaves that it uses) from a [`Budget`]. Without budget, it halves its
//! precision each time that it is full (uniform collapse, as in UDDSketch: Epicoco, Melle, Cafaro,
//! Pulimeno, Morleo 2020).

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::dense::Dense;

/// Buckets to a power of two, as a power of two.
pub(crate) const SUB_BITS: u32 = 6;
/// Values at or above 2^40 ns (18 minutes) count as the last bucket; the maximum stays exact.
const TOP_BIT: u32 = 39;
const BUCKETS: usize = ((TOP_BIT - SUB_BITS + 2) << SUB_BITS) as usize;
/// How many values are kept exactly.
const EXACT_MAX: usize = 8;
/// How many buckets are kept in a sorted list.
const SPARSE_MAX: usize = 20;
/// A sparse distribution of this many values earns a dense table for speed.
const EARNED_AT: u64 = 256;

/// How many distributions may still become dense (each takes 4 KiB at most while no bucket has 2^16 values,
/// and usually half of it).
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    dense_left: u32,
}

impl Budget {
    /// A budget for this many dense distributions.
    pub const fn new(dense: u32) -> Budget {
        Budget { dense_left: dense }
    }

    fn take(&mut self) -> bool {
        let granted = self.dense_left > 0;
        self.dense_left -= u32::from(granted);
        granted
    }
}

/// Count, sum and maximum of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// How many durations there are.
    pub count: u64,
    /// The sum of the durations, ns; at most `u64::MAX`.
    pub sum_ns: u64,
    /// The longest duration, ns; 0 if there are none.
    pub max_ns: u64,
}

impl Tally {
    /// Counts one duration.
    pub fn add(&mut self, duration_ns: u64) {
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }

    /// The mean, ns; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// The figures usually shown of a distribution, ns.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The number of values; the other figures are meaningless if it is 0, see [`Histogram::summary`].
    pub count: u64,
    /// The exact mean, ns.
    pub mean: f64,
    /// The median, ns.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The exact maximum, ns.
    pub max: u64,
}

/// A distribution of durations, ns.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
    store: Store,
}

#[derive(Clone, Debug)]
enum Store {
    Exact(Vec<u64>),
    /// Entries in order of their buckets.
    Sparse {
        level: u8,
        entries: Vec<Entry>,
    },
    Dense(Dense),
}

// A distribution's head fills one cache line.
const _: () = assert!(size_of::<Histogram>() == 64);

/// A bucket (shifted right by the level) and its count, in 6 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    bucket: u16,
    low: u16,
    high: u16,
}

impl Entry {
    const fn new(bucket: u16, count: u32) -> Entry {
        Entry { bucket, low: count as u16, high: (count >> 16) as u16 }
    }

    const fn count(self) -> u32 {
        ((self.high as u32) << 16) | self.low as u32
    }
}

impl Default for Store {
    fn default() -> Store {
        Store::Exact(Vec::new())
    }
}

impl Histogram {
    /// A distribution that is dense from the start.
    pub fn dense() -> Histogram {
        Histogram { store: Store::Dense(Dense::new()), ..Histogram::default() }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64, budget: &mut Budget) {
        if self.count == 0 {
            self.min = value_ns;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value_ns);
        self.min = self.min.min(value_ns);
        self.max = self.max.max(value_ns);
        match &mut self.store {
            Store::Dense(dense) => dense.count(bucket_of(value_ns)),
            Store::Exact(_) | Store::Sparse { .. } => self.record_small(value_ns, budget),
        }
    }

    #[cold]
    fn record_small(&mut self, value_ns: u64, budget: &mut Budget) {
        if let Store::Exact(values) = &mut self.store {
            if values.len() < EXACT_MAX {
                values.push(value_ns);
                return;
            }
            let values = std::mem::take(values);
            self.store = Store::Sparse { level: 0, entries: Vec::with_capacity(EXACT_MAX) };
            for value in values {
                self.add_bucket(bucket_of(value), 1, budget);
            }
        }
        if self.count >= EARNED_AT && budget.take() {
            self.make_dense();
        }
        self.add_bucket(bucket_of(value_ns), 1, budget);
    }

    fn make_dense(&mut self) {
        let mut dense = Dense::new();
        if let Store::Sparse { level, entries } = &self.store {
            for entry in entries {
                let (first, last) = span(usize::from(entry.bucket), *level);
                dense.add(usize::midpoint(first, last), u64::from(entry.count()));
            }
        }
        self.store = Store::Dense(dense);
    }

    /// Adds to the buckets only; the store must no longer be `Exact`.
    fn add_bucket(&mut self, bucket: usize, count: u32, budget: &mut Budget) {
        loop {
            match &mut self.store {
                Store::Exact(_) => unreachable!("left before buckets are counted"),
                Store::Sparse { level, entries } => {
                    let key = (bucket >> *level) as u16;
                    match entries.binary_search_by_key(&key, |entry| entry.bucket) {
                        Ok(at) => match entries[at].count().checked_add(count) {
                            Some(sum) => {
                                entries[at] = Entry::new(key, sum);
                                return;
                            }
                            None => self.make_dense(),
                        },
                        Err(at) if entries.len() < SPARSE_MAX => {
                            if entries.len() == entries.capacity() {
                                entries.reserve_exact(EXACT_MAX);
                            }
                            entries.insert(at, Entry::new(key, count));
                            return;
                        }
                        Err(_) if *level == 0 && budget.take() => self.make_dense(),
                        Err(_) => collapse(level, entries),
                    }
                }
                Store::Dense(dense) => return dense.add(bucket, u64::from(count)),
            }
        }
    }

    /// Adds all values of another distribution; the sum is then as precise as the coarser of the two.
    pub fn merge(&mut self, other: &Histogram, budget: &mut Budget) {
        if other.count == 0 {
            return;
        }
        if let Store::Exact(values) = &other.store {
            values.iter().for_each(|&value| self.record(value, budget));
            return;
        }
        if self.count == 0 {
            self.min = u64::MAX;
        }
        if let Store::Exact(values) = &mut self.store {
            let values = std::mem::take(values);
            self.store = Store::Sparse { level: 0, entries: Vec::new() };
            values.iter().for_each(|&value| self.add_bucket(bucket_of(value), 1, budget));
        }
        if matches!(other.store, Store::Dense(_)) && !matches!(self.store, Store::Dense(_)) {
            self.make_dense();
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if let Store::Dense(dense) = &mut self.store {
            other.for_each_bucket(|first, last, count| dense.add(usize::midpoint(first, last), count));
            return;
        }
        other.for_each_bucket(|first, last, count| {
            let count = u32::try_from(count).expect("a sparse distribution's counts");
            self.add_bucket(usize::midpoint(first, last), count, budget);
        });
    }

    /// Frees memory that no value uses, and prepares the distribution for reading.
    pub fn shrink(&mut self) {
        match &mut self.store {
            Store::Exact(values) => values.shrink_to_fit(),
            Store::Sparse { entries, .. } => entries.shrink_to_fit(),
            Store::Dense(dense) => dense.settle(),
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of all values, ns; at most `u64::MAX`.
    pub fn sum_ns(&self) -> u64 {
        self.sum
    }

    /// The exact smallest value; `None` if there are none.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The exact greatest value; `None` if there are none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The exact mean; `None` if there are no values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value that at least the fraction `q` (0 to 1) of all values does not exceed; `None` if
    /// there are none.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let mut out = [0];
        self.quantiles([q], &mut out).then_some(out[0])
    }

    /// Finds several quantiles in one pass; `qs` must ascend. Returns whether there are any values.
    fn quantiles<const N: usize>(&self, qs: [f64; N], out: &mut [u64; N]) -> bool {
        let ranks = qs.map(|q| ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1)));
        if let Store::Dense(dense) = &self.store {
            dense.at_ranks(&ranks, |number, bucket, count, seen| {
                out[number] = self.point(bucket, bucket, count, self.count - seen);
            });
            return self.count > 0;
        }
        let (mut next, mut seen) = (0, 0);
        self.for_each_point(|value, count| {
            seen += count;
            while next < N && seen >= ranks[next] {
                out[next] = value;
                next += 1;
            }
        });
        self.count > 0
    }

    /// The figures usually shown; `None` if there are no values.
    pub fn summary(&self) -> Option<Summary> {
        let mut q = [0; 4];
        self.quantiles([0.5, 0.9, 0.99, 0.999], &mut q).then(|| Summary {
            count: self.count,
            mean: self.sum as f64 / self.count as f64,
            p50: q[0],
            p90: q[1],
            p99: q[2],
            p999: q[3],
            max: self.max,
        })
    }

    /// The cumulative distribution: values in ascending order, each with the fraction of all values that do
    /// not exceed it; the last fraction is 1.
    pub fn cdf(&self) -> Vec<(u64, f64)> {
        let mut points: Vec<(u64, f64)> = Vec::new();
        let mut seen = 0;
        self.for_each_point(|value, count| {
            seen += count;
            let fraction = seen as f64 / self.count as f64;
            match points.last_mut() {
                Some(last) if last.0 == value => last.1 = fraction,
                _ => points.push((value, fraction)),
            }
        });
        points
    }

    /// Calls back with (value, count) in ascending order, values as near as they are known.
    fn for_each_point(&self, mut each: impl FnMut(u64, u64)) {
        if let Store::Exact(values) = &self.store {
            let mut values = values.clone();
            values.sort_unstable();
            values.into_iter().for_each(|value| each(value, 1));
            return;
        }
        let mut left = self.count;
        self.for_each_bucket(|first, last, count| {
            left -= count;
            each(self.point(first, last, count, left), count);
        });
    }

    /// The value that stands for buckets `first` to `last`, if `left` values are beyond these buckets.
    fn point(&self, first: usize, last: usize, count: u64, left: u64) -> u64 {
        let top = if last + 1 == BUCKETS { self.max } else { lowest(last + 1) - 1 };
        let middle = middle_of(lowest(first), top);
        // The last value of all is known exactly.
        if left == 0 && count == 1 { self.max } else { middle.clamp(self.min, self.max) }
    }

    /// Calls back with (first bucket, last bucket, count) in ascending order; nothing for exact values.
    fn for_each_bucket(&self, mut each: impl FnMut(usize, usize, u64)) {
        match &self.store {
            Store::Exact(_) => {}
            Store::Sparse { level, entries } => {
                for entry in entries {
                    let (first, last) = span(usize::from(entry.bucket), *level);
                    each(first, last, u64::from(entry.count()));
                }
            }
            Store::Dense(dense) => dense.for_each(|bucket, count| each(bucket, bucket, count)),
        }
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let summary = self.summary();
        let mut out = to.serialize_struct("Histogram", 8)?;
        out.serialize_field("count", &self.count)?;
        out.serialize_field("mean", &summary.map(|s| s.mean))?;
        out.serialize_field("p50", &summary.map(|s| s.p50))?;
        out.serialize_field("p90", &summary.map(|s| s.p90))?;
        out.serialize_field("p99", &summary.map(|s| s.p99))?;
        out.serialize_field("p999", &summary.map(|s| s.p999))?;
        out.serialize_field("max", &summary.map(|s| s.max))?;
        out.serialize_field("cdf", &self.cdf())?;
        out.end()
    }
}

/// Halves the precision.
fn collapse(level: &mut u8, entries: &mut Vec<Entry>) {
    *level += 1;
    let mut kept: usize = 0;
    for at in 0..entries.len() {
        let (bucket, count) = (entries[at].bucket >> 1, entries[at].count());
        if kept > 0 && entries[kept - 1].bucket == bucket {
            // Beyond 2^32 values the count stops; a distribution so large has earned its table long before.
            let sum = entries[kept - 1].count().saturating_add(count);
            entries[kept - 1] = Entry::new(bucket, sum);
        } else {
            entries[kept] = Entry::new(bucket, count);
            kept += 1;
        }
    }
    entries.truncate(kept);
}

/// The first and last fine bucket of a coarse one.
fn span(bucket: usize, level: u8) -> (usize, usize) {
    let first = bucket << level;
    (first, (first + (1 << level) - 1).min(BUCKETS - 1))
}

#[inline]
fn bucket_of(value: u64) -> usize {
    let value = value.min((1 << (TOP_BIT + 1)) - 1);
    // Values below 64 have a bucket each: for them the shift is 0.
    let shift = (63 - (value | (1 << SUB_BITS)).leading_zeros()) - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// The smallest value of a bucket.
fn lowest(bucket: usize) -> u64 {
    let octave = bucket >> SUB_BITS;
    if octave == 0 {
        return bucket as u64;
    }
    ((bucket & ((1 << SUB_BITS) - 1)) as u64 + (1 << SUB_BITS)) << (octave - 1)
}

fn middle_of(low: u64, high: u64) -> u64 {
    low + (high - low) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator of well-mixed numbers (SplitMix64).
    struct Mix(u64);

    impl Mix {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }

    fn values(n: usize) -> Vec<u64> {
        let mut mix = Mix(7);
        (0..n).map(|_| (mix.next() >> 40) >> (mix.next() % 20)).collect()
    }

    fn filled(values: &[u64], dense: u32) -> Histogram {
        let mut budget = Budget::new(dense);
        let mut histogram = Histogram::default();
        values.iter().for_each(|&value| histogram.record(value, &mut budget));
        histogram
    }

    fn worst_error(values: &[u64], histogram: &Histogram) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let mut worst: f64 = 0.0;
        for per_mille in 1..=1000_usize {
            let exact = sorted[(per_mille * sorted.len()).div_ceil(1000) - 1] as f64;
            let got = histogram.quantile(per_mille as f64 / 1000.0).unwrap() as f64;
            // Under 64 ns a coarse bucket is wide for its place; no such duration is of interest.
            worst = worst.max((got - exact).abs() / exact.max(64.0));
        }
        worst
    }

    #[test]
    fn buckets_and_their_lowest_values_agree() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(lowest(bucket)), bucket);
            if bucket > 0 {
                assert_eq!(bucket_of(lowest(bucket) - 1), bucket - 1);
            }
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn few_values_are_exact() {
        let histogram = filled(&[5_000_001, 3, 70_003], 0);
        assert_eq!(histogram.quantile(0.5), Some(70_003));
        assert_eq!(histogram.quantile(1.0), Some(5_000_001));
        assert_eq!(histogram.cdf().last(), Some(&(5_000_001, 1.0)));
    }

    #[test]
    fn a_dense_quantile_is_within_one_percent() {
        let values = values(100_000);
        assert!(worst_error(&values, &filled(&values, 1)) < 0.01);
    }

    #[test]
    fn without_a_budget_quantiles_stay_within_a_factor_of_two() {
        let values = values(100_000);
        let histogram = filled(&values, 0);
        assert!(matches!(&histogram.store, Store::Sparse { entries, .. } if entries.len() <= SPARSE_MAX));
        let error = worst_error(&values, &histogram);
        assert!(error > 0.01 && error < 1.0, "{error}");
        assert_eq!(histogram.max(), values.iter().copied().max());
    }

    #[test]
    fn count_mean_and_maximum_stay_exact() {
        let values = values(5_000);
        let histogram = filled(&values, 0);
        assert_eq!(histogram.count(), 5_000);
        assert_eq!(histogram.sum_ns(), values.iter().sum::<u64>());
        assert_eq!(histogram.summary().unwrap().max, *values.iter().max().unwrap());
    }

    #[test]
    fn merging_gives_the_distribution_of_all_values() {
        let values = values(20_000);
        let mut left = filled(&values[..3], 1);
        for part in [&values[3..7], &values[7..200], &values[200..]] {
            left.merge(&filled(part, 1), &mut Budget::new(1));
        }
        assert_eq!(left.count(), 20_000);
        assert!(worst_error(&values, &left) < 0.02);
    }

    #[test]
    fn an_empty_distribution_has_no_figures() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        assert!(histogram.summary().is_none() && histogram.cdf().is_empty() && histogram.max().is_none());
    }
}
