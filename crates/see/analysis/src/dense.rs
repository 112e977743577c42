//! Counts by bucket: a table from the first to the last octave in use, in the narrowest numbers that fit.
//!
//! A value lands anywhere in its table, and a thousand tasks' tables do not fit the nearest caches. So
//! buckets are logged side by side first and counted many at once: then the waits for memory overlap.

use crate::histogram::SUB_BITS;

/// How many buckets are logged before they are counted: two cache lines of them.
const LOG: usize = 64;
/// The number of buckets that are summed up at once; a divisor of the buckets of an octave.
const MANY: usize = 16;

/// Counts from octave `first` on.
#[derive(Clone, Debug)]
pub(crate) enum Dense {
    /// The form while no bucket has 2^16 values. The first `logged` buckets of the log are
    /// still to be counted.
    Narrow {
        first: u8,
        logged: u8,
        counts: Octaves<u16, LOG>,
    },
    Middle {
        first: u8,
        counts: Octaves<u32, 0>,
    },
    Wide {
        first: u8,
        counts: Octaves<u64, 0>,
    },
}

impl Dense {
    pub(crate) fn new() -> Dense {
        Dense::Narrow { first: 0, logged: 0, counts: Octaves::new() }
    }

    /// Adds one to a bucket, at once or when the log is counted.
    #[inline]
    pub(crate) fn count(&mut self, bucket: usize) {
        match self {
            Dense::Narrow { logged, counts, .. } => {
                counts.list[usize::from(*logged)] = bucket as u16;
                *logged += 1;
                if usize::from(*logged) == LOG {
                    self.settle();
                }
            }
            Dense::Middle { .. } | Dense::Wide { .. } => self.add(bucket, 1),
        }
    }

    /// Counts the logged buckets.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        let Dense::Narrow { logged, counts, .. } = self else { return };
        let (log, len) = (counts.head(), usize::from(std::mem::take(logged)));
        log[..len].iter().for_each(|&bucket| self.add(usize::from(bucket), 1));
    }

    /// Adds to a bucket.
    #[inline]
    pub(crate) fn add(&mut self, bucket: usize, count: u64) {
        loop {
            let added = match self {
                Dense::Narrow { first, counts, .. } => counts.add(*first, bucket, count),
                Dense::Middle { first, counts } => counts.add(*first, bucket, count),
                Dense::Wide { first, counts } => counts.add(*first, bucket, count),
            };
            match added {
                Added::Yes => return,
                Added::Outside => self.extend(bucket),
                Added::TooMany => self.widen(),
            }
        }
    }

    #[cold]
    fn extend(&mut self, bucket: usize) {
        match self {
            Dense::Narrow { first, counts, .. } => *first = counts.extend(*first, bucket),
            Dense::Middle { first, counts } => *first = counts.extend(*first, bucket),
            Dense::Wide { first, counts } => *first = counts.extend(*first, bucket),
        }
    }

    #[cold]
    fn widen(&mut self) {
        match self {
            Dense::Narrow { first, logged, counts } => {
                let (log, len) = (counts.head(), usize::from(*logged));
                *self = Dense::Middle { first: *first, counts: counts.widened() };
                log[..len].iter().for_each(|&bucket| self.add(usize::from(bucket), 1));
            }
            Dense::Middle { first, counts } => {
                *self = Dense::Wide { first: *first, counts: counts.widened() };
            }
            Dense::Wide { .. } => {}
        }
    }

    /// Calls back with (bucket, count) in ascending order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        match self {
            Dense::Narrow { logged: 1.., .. } => {
                let mut settled = self.clone();
                settled.settle();
                settled.for_each_settled(&mut each);
            }
            _ => self.for_each_settled(&mut each),
        }
    }

    /// Calls back with (number of the rank, bucket, count of the bucket, count up to the bucket). Each of
    /// these ascending ranks, counted from 1, gives one call for its bucket.
    pub(crate) fn at_ranks(&self, ranks: &[u64], mut each: impl FnMut(usize, usize, u64, u64)) {
        match self {
            Dense::Narrow { logged: 1.., .. } => {
                let mut settled = self.clone();
                settled.settle();
                settled.at_ranks_settled(ranks, &mut each);
            }
            _ => self.at_ranks_settled(ranks, &mut each),
        }
    }

    fn at_ranks_settled(&self, ranks: &[u64], each: &mut impl FnMut(usize, usize, u64, u64)) {
        match self {
            Dense::Narrow { first, counts, .. } => counts.at_ranks(*first, ranks, each),
            Dense::Middle { first, counts } => counts.at_ranks(*first, ranks, each),
            Dense::Wide { first, counts } => counts.at_ranks(*first, ranks, each),
        }
    }

    fn for_each_settled(&self, each: &mut impl FnMut(usize, u64)) {
        match self {
            Dense::Narrow { first, counts, .. } => counts.for_each(*first, each),
            Dense::Middle { first, counts } => counts.for_each(*first, each),
            Dense::Wide { first, counts } => counts.for_each(*first, each),
        }
    }
}

/// Counts of neighbouring buckets, in whole octaves, after `HEAD` numbers of other use.
#[derive(Clone, Debug)]
pub(crate) struct Octaves<C, const HEAD: usize> {
    list: Box<[C]>,
}

/// The outcome of an addition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
enum Added {
    Yes,
    /// The bucket's octave is not in the table.
    Outside,
    /// The sum does not fit: the table needs wider numbers.
    TooMany,
}

impl<C: Copy + Default + Into<u64> + TryFrom<u64>, const HEAD: usize> Octaves<C, HEAD> {
    fn new() -> Octaves<C, HEAD> {
        Octaves { list: vec![C::default(); HEAD].into() }
    }

    fn head(&self) -> [C; HEAD] {
        std::array::from_fn(|at| self.list[at])
    }

    fn counts(&self) -> &[C] {
        &self.list[HEAD..]
    }

    #[inline]
    fn add(&mut self, first: u8, bucket: usize, count: u64) -> Added {
        let at = bucket.wrapping_sub(usize::from(first) << SUB_BITS);
        let Some(slot) = self.list[HEAD..].get_mut(at) else { return Added::Outside };
        let Ok(sum) = C::try_from((*slot).into().saturating_add(count)) else { return Added::TooMany };
        *slot = sum;
        Added::Yes
    }

    /// Makes room for a bucket; returns the first octave of the grown table.
    fn extend(&mut self, first: u8, bucket: usize) -> u8 {
        let octave = (bucket >> SUB_BITS) as u8;
        let (mut start, mut end) = (octave, octave + 1);
        let counts = self.counts();
        if !counts.is_empty() {
            start = start.min(first);
            end = end.max(first + (counts.len() >> SUB_BITS) as u8);
        }
        let mut list = vec![C::default(); HEAD + (usize::from(end - start) << SUB_BITS)];
        list[..HEAD].copy_from_slice(&self.list[..HEAD]);
        let before = HEAD + (usize::from(first.saturating_sub(start)) << SUB_BITS);
        list[before..before + counts.len()].copy_from_slice(counts);
        self.list = list.into();
        start
    }

    /// The same counts in wider numbers.
    fn widened<W: From<C>>(&self) -> Octaves<W, 0> {
        Octaves { list: self.counts().iter().map(|&count| W::from(count)).collect() }
    }

    fn at_ranks(&self, first: u8, ranks: &[u64], each: &mut impl FnMut(usize, usize, u64, u64)) {
        let mut from = usize::from(first) << SUB_BITS;
        let (mut next, mut seen) = (0, 0);
        for counts in self.counts().chunks_exact(MANY) {
            let Some(&rank) = ranks.get(next) else { return };
            let sum: u64 = counts.iter().map(|&count| count.into()).sum();
            if seen + sum < rank {
                seen += sum;
            } else {
                for (at, &count) in counts.iter().enumerate() {
                    seen += count.into();
                    while ranks.get(next).is_some_and(|&rank| seen >= rank) {
                        each(next, from + at, count.into(), seen);
                        next += 1;
                    }
                }
            }
            from += MANY;
        }
    }

    /// Calls back with (bucket, count) in ascending order.
    fn for_each(&self, first: u8, mut each: impl FnMut(usize, u64)) {
        let mut from = usize::from(first) << SUB_BITS;
        // Most buckets of a table are empty: this test skips many empty buckets at once.
        for counts in self.counts().chunks_exact(MANY) {
            if counts.iter().fold(0, |sum, &count| sum | count.into()) > 0 {
                for (at, &count) in counts.iter().enumerate().filter(|(_, count)| (**count).into() > 0) {
                    each(from + at, count.into());
                }
            }
            from += MANY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(dense: &Dense) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        dense.for_each(|bucket, count| found.push((bucket, count)));
        found
    }

    #[test]
    fn a_bucket_counts_past_four_thousand_million() {
        let mut dense = Dense::new();
        for count in [1, u64::from(u16::MAX), u64::from(u32::MAX), 1] {
            dense.count(7);
            dense.add(5, count);
            dense.add(2_000, 1);
        }
        assert!(matches!(dense, Dense::Wide { .. }));
        assert_eq!(counts_of(&dense), [(5, (1 << 32) + (1 << 16)), (7, 4), (2_000, 4)]);
    }

    #[test]
    fn logged_values_count_at_any_moment() {
        let mut dense = Dense::new();
        for values in 1..300 {
            dense.count(values * 7 % 500);
            let found = counts_of(&dense);
            assert_eq!(found.iter().map(|&(_, count)| count).sum::<u64>(), values as u64);
            assert!(found.is_sorted());
        }
    }

    #[test]
    fn a_table_has_the_octaves_in_use_only() {
        let mut dense = Dense::new();
        for (bucket, octaves) in [(700, 1), (710, 2), (600, 3), (900, 6)] {
            dense.add(bucket, 1);
            let Dense::Narrow { counts, .. } = &dense else { panic!("few values") };
            assert_eq!(counts.counts().len(), octaves << SUB_BITS);
        }
        assert_eq!(counts_of(&dense), [(600, 1), (700, 1), (710, 1), (900, 1)]);
    }
}
