//! The counters that a sampling thread writes while other threads read them: one writer, no
//! locks, no allocation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::histogram::{BUCKETS, Histogram, bucket_of, occupied};
use crate::split::{PartHistograms, Parts};

/// A counter that one thread alone writes: an ordinary addition; other threads may read it at any time.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    #[inline]
    fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Sets the counter in such a way that a reader of this value also sees everything counted before it.
    #[inline]
    fn publish(&self, value: u64) {
        self.0.store(value, Release);
    }

    /// The value that was published last; its reader also sees everything that was counted before it.
    fn published(&self) -> u64 {
        self.0.load(Acquire)
    }
}

/// A distribution that one thread fills.
#[derive(Debug)]
pub(crate) struct Cells {
    sum_ns: Counter,
    min_ns: Counter,
    max_ns: Counter,
    counts: Box<[Counter]>,
}

impl Cells {
    fn new() -> Cells {
        let counts = (0..BUCKETS).map(|_| Counter::default()).collect();
        let cells = Cells {
            sum_ns: Counter::default(),
            min_ns: Counter::default(),
            max_ns: Counter::default(),
            counts,
        };
        cells.min_ns.set(u64::MAX);
        cells
    }

    #[inline]
    fn record(&self, latency_ns: u64) {
        // A bucket's number is within the table by its construction; the check costs less than a proof.
        self.counts[bucket_of(latency_ns)].add(1);
        self.sum_ns.add(latency_ns);
        if latency_ns < self.min_ns.get() {
            self.min_ns.publish(latency_ns);
        }
        if latency_ns > self.max_ns.get() {
            self.max_ns.publish(latency_ns);
        }
    }

    fn clear(&self) {
        // Outside of these buckets this thread has counted nothing.
        self.counts[occupied(self.min_ns.get(), self.max_ns.get())].iter().for_each(|count| count.set(0));
        self.sum_ns.set(0);
        self.min_ns.set(u64::MAX);
        self.max_ns.set(0);
    }

    /// The distribution as counted so far. A sample that is just being counted may be in some counters
    /// and not yet in others. Minimum and maximum are published after their buckets, and no bucket
    /// outside of them is taken.
    fn snapshot(&self) -> Histogram {
        let (min_ns, max_ns) = (self.min_ns.published(), self.max_ns.published());
        if min_ns > max_ns {
            return Histogram::default();
        }
        let mut counts = vec![0; BUCKETS];
        for at in occupied(min_ns, max_ns) {
            counts[at] = self.counts[at].get();
        }
        Histogram::of_counts(counts, self.sum_ns.get(), min_ns, max_ns)
    }
}

/// The parts' distributions.
#[derive(Debug)]
struct PartCells {
    timer: Cells,
    irq: Cells,
    preemption: Cells,
    scheduling: Cells,
    unseen: Cells,
}

impl PartCells {
    fn new() -> PartCells {
        PartCells {
            timer: Cells::new(),
            irq: Cells::new(),
            preemption: Cells::new(),
            scheduling: Cells::new(),
            unseen: Cells::new(),
        }
    }

    fn all(&self) -> [&Cells; 5] {
        [&self.timer, &self.irq, &self.preemption, &self.scheduling, &self.unseen]
    }

    #[inline]
    fn record(&self, parts: &Parts) {
        let told =
            [parts.timer_ns, parts.irq_ns, parts.preemption_ns, parts.scheduling_ns, Some(parts.unseen_ns)];
        for (cells, part_ns) in self.all().into_iter().zip(told) {
            if let Some(part_ns) = part_ns {
                cells.record(part_ns);
            }
        }
    }

    fn snapshot(&self) -> PartHistograms {
        PartHistograms {
            timer_ns: self.timer.snapshot(),
            irq_ns: self.irq.snapshot(),
            preemption_ns: self.preemption.snapshot(),
            scheduling_ns: self.scheduling.snapshot(),
            unseen_ns: self.unseen.snapshot(),
        }
    }
}

/// Whether a thread's samples are split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Split {
    Parts,
    Whole,
}

/// All counts of one sampling thread.
#[derive(Debug)]
pub(crate) struct Tally {
    latency: Cells,
    omitted: Cells,
    parts: Option<Box<PartCells>>,
    samples: Counter,
    missed: Counter,
    /// The end of the longest latency, ns of the monotonic clock.
    max_at_ns: Counter,
    /// The longest latency since another thread last took this value and set it to 0: the only word that
    /// two threads write.
    recent_max_ns: AtomicU64,
    has_begun: AtomicBool,
    /// The time of the thread's last sample, ns of the monotonic clock; 0 until then.
    ended_ns: Counter,
}

impl Tally {
    pub(crate) fn new(split: Split) -> Tally {
        Tally {
            latency: Cells::new(),
            omitted: Cells::new(),
            parts: (split == Split::Parts).then(|| Box::new(PartCells::new())),
            samples: Counter::default(),
            missed: Counter::default(),
            max_at_ns: Counter::default(),
            recent_max_ns: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            ended_ns: Counter::default(),
        }
    }

    /// Counts a sample.
    #[inline]
    pub(crate) fn record(&self, latency_ns: u64, woken_ns: u64) {
        if latency_ns > self.recent_max_ns.load(Relaxed) {
            self.grow(latency_ns, woken_ns);
        }
        self.latency.record(latency_ns);
        self.samples.add(1);
    }

    #[cold]
    fn grow(&self, latency_ns: u64, woken_ns: u64) {
        // Another thread may take the last maximum away just now; then this latency counts for the next
        // second.
        self.recent_max_ns.store(latency_ns, Relaxed);
        if latency_ns > self.latency.max_ns.get() {
            self.max_at_ns.set(woken_ns);
        }
    }

    /// Counts the samples that were missed because one sample had this latency: one for every period that
    /// passed meanwhile.
    #[cold]
    pub(crate) fn miss(&self, latency_ns: u64, period_ns: u64, missed: u64) {
        self.missed.add(missed);
        for nth in 1..=missed {
            self.omitted.record(latency_ns.saturating_sub(nth.saturating_mul(period_ns)));
        }
    }

    /// Counts a sample's parts, if this thread's samples are split.
    #[inline]
    pub(crate) fn record_parts(&self, parts: &Parts) {
        if let Some(cells) = &self.parts {
            cells.record(parts);
        }
    }

    /// Clears the warm-up; only the sampling thread may call it. Counts from here on are shown.
    pub(crate) fn begin(&self) {
        let parts = self.parts.iter().flat_map(|parts| parts.all());
        [&self.latency, &self.omitted].into_iter().chain(parts).for_each(Cells::clear);
        [&self.samples, &self.missed, &self.max_at_ns].into_iter().for_each(|counter| counter.set(0));
        self.recent_max_ns.store(0, Relaxed);
        self.has_begun.store(true, Release);
    }

    /// Whether the warm-up is over: until then nothing is shown.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Acquire)
    }

    /// Notes that the thread has taken its last sample: from now on nothing is counted.
    pub(crate) fn end(&self, now_ns: u64) {
        self.ended_ns.set(now_ns);
    }

    /// The time of the thread's last sample, ns of the monotonic clock; `None` until then.
    pub(crate) fn ended_ns(&self) -> Option<u64> {
        Some(self.ended_ns.get()).filter(|&ended_ns| ended_ns > 0)
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples.get()
    }

    pub(crate) fn missed(&self) -> u64 {
        self.missed.get()
    }

    pub(crate) fn max_ns(&self) -> u64 {
        self.latency.max_ns.get()
    }

    pub(crate) fn max_at_ns(&self) -> u64 {
        self.max_at_ns.get()
    }

    pub(crate) fn take_recent_max_ns(&self) -> u64 {
        self.recent_max_ns.swap(0, Relaxed)
    }

    pub(crate) fn latency(&self) -> Histogram {
        self.latency.snapshot()
    }

    pub(crate) fn omitted(&self) -> Histogram {
        self.omitted.snapshot()
    }

    pub(crate) fn parts(&self) -> Option<PartHistograms> {
        self.parts.as_ref().map(|parts| parts.snapshot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 500_000;

    #[test]
    fn missed_periods_become_the_samples_that_they_would_have_been() {
        let tally = Tally::new(Split::Whole);
        tally.record(20_000, 1);
        // 20.1 ms late at a period of 0.5 ms: 40 samples were not taken, 19.6 ms to 0.1 ms late.
        tally.record(20_100_000, 2);
        tally.miss(20_100_000, PERIOD_NS, 20_100_000 / PERIOD_NS);
        let (raw, omitted) = (tally.latency(), tally.omitted());
        assert_eq!((raw.count(), omitted.count(), tally.missed()), (2, 40, 40));
        assert_eq!((omitted.min_ns(), omitted.max_ns()), (Some(100_000), Some(19_600_000)));
        assert_eq!(omitted.mean_ns(), Some(9_850_000.0));
        assert_eq!(raw.max_ns(), Some(20_100_000));
    }

    #[test]
    fn the_maximum_keeps_its_time_after_the_recent_one_is_taken() {
        let tally = Tally::new(Split::Whole);
        tally.record(70, 1_000);
        assert_eq!(tally.take_recent_max_ns(), 70);
        tally.record(60, 2_000);
        assert_eq!((tally.max_ns(), tally.max_at_ns()), (70, 1_000));
        assert_eq!(tally.take_recent_max_ns(), 60);
        tally.record(80, 3_000);
        assert_eq!((tally.max_ns(), tally.max_at_ns(), tally.samples()), (80, 3_000, 3));
    }

    #[test]
    fn counts_from_before_the_beginning_are_forgotten() {
        let tally = Tally::new(Split::Parts);
        tally.record(70, 1_000);
        tally.miss(2 * PERIOD_NS, PERIOD_NS, 2);
        tally.record_parts(&Parts { timer_ns: Some(3), unseen_ns: 67, ..Parts::default() });
        assert!(!tally.has_begun());
        tally.begin();
        assert!(tally.has_begun());
        let parts = tally.parts().unwrap();
        assert!(
            [tally.latency(), tally.omitted(), parts.timer_ns, parts.unseen_ns]
                .iter()
                .all(|h| *h == Histogram::default())
        );
        assert_eq!(
            (tally.samples(), tally.missed(), tally.max_at_ns(), tally.take_recent_max_ns()),
            (0, 0, 0, 0)
        );
    }

    #[test]
    fn a_tally_read_while_it_counts_can_be_kept_and_read_back() {
        let tally = Tally::new(Split::Whole);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The latencies get ever longer and ever shorter, so that both maximum and minimum change.
                for nth in 0..50_000 {
                    tally.record(500_000 + 30 * nth, nth);
                    tally.record(500_000 - 9 * nth, nth);
                }
                over.store(true, Release);
            });
            while !over.load(Acquire) {
                let text = serde_json::to_string(&tally.latency()).unwrap();
                serde_json::from_str::<Histogram>(&text).unwrap();
            }
        });
        assert_eq!(tally.latency().count(), 100_000);
    }

    #[test]
    fn a_part_that_was_not_seen_is_not_counted_as_0() {
        let tally = Tally::new(Split::Parts);
        tally.record_parts(&Parts { timer_ns: Some(3), unseen_ns: 67, ..Parts::default() });
        let parts = tally.parts().unwrap();
        assert_eq!(
            (parts.timer_ns.count(), parts.irq_ns.count(), parts.unseen_ns.max_ns()),
            (1, 0, Some(67))
        );
    }
}
