//! A CPU's holders, as far back as any task has waited: the latest stays one by one, earlier stays as sums.
//!
//! Sums are kept for stretches of time that grow coarser with age, as in an exponential histogram (Datar,
//! Gionis, Indyk, Motwani 2002, section 3). Memory is bounded for any length of trace, and the stretch in
//! which a wait began is a small part of the wait.

use std::cmp::Reverse;
use std::collections::VecDeque;

/// The number of stays that are first summed up together.
const FOLDED: usize = 64;
/// At least this many of the latest stays are kept one by one.
const APART: usize = 1024;
/// The number of stretches that are joined to a coarser stretch.
const JOINED: usize = 4;
/// The number of stretches kept of each coarseness. The stretch in which a wait began is about a twentieth of
/// the wait, or less.
const EACH: usize = 64;
/// The number of coarsenesses; together they hold 6 million stays.
const LEVELS: u8 = 6;
/// The most sums kept of one stretch, over all CPUs together; time beyond them is kept without a name.
const SUMS_OF_ALL_CPUS: usize = 512;
const SUMS_MIN: usize = 32;
const SUMS_MAX: usize = 256;

/// A part of a CPU's time, and its holder: a number that stands for a task to the history's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) whose: u32,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

impl Span {
    /// The part of the span between two times, if there is one.
    pub(crate) fn within(self, from_ns: u64, to_ns: u64) -> Option<Span> {
        let span = Span { start_ns: self.start_ns.max(from_ns), end_ns: self.end_ns.min(to_ns), ..self };
        (span.start_ns < span.end_ns).then_some(span)
    }

    const fn ns(self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// Spans of a stretch of time, summed up.
struct Stretch {
    level: u8,
    start_ns: u64,
    end_ns: u64,
    sums: Box<[(u32, u64)]>,
    /// The time of tasks without a sum of their own, ns.
    others_ns: u64,
}

/// One CPU's past stays.
#[derive(Default)]
pub(crate) struct History {
    /// The latest stays, one by one, oldest first.
    latest: Vec<Span>,
    /// The earlier stays, summed up; the oldest and coarsest stretch first.
    stretches: VecDeque<Stretch>,
}

/// Puts sums in order, greatest first.
pub(crate) fn sort(sums: &mut [(u32, u64)]) {
    sums.sort_unstable_by_key(|&(whose, ns)| (Reverse(ns), whose));
}

/// Sums that are being made, by number. One such object serves all histories.
pub(crate) struct Sums {
    by_number: Vec<u64>,
    known: Vec<u32>,
    others_ns: u64,
    most: usize,
}

impl Sums {
    /// Makes sums for the histories of this many CPUs.
    pub(crate) fn new(cpus: u16) -> Sums {
        let most = (SUMS_OF_ALL_CPUS / usize::from(cpus.max(1))).clamp(SUMS_MIN, SUMS_MAX);
        Sums { by_number: Vec::new(), known: Vec::new(), others_ns: 0, most }
    }

    #[inline]
    pub(crate) fn add(&mut self, whose: u32, ns: u64) {
        let at = whose as usize;
        if at >= self.by_number.len() {
            self.by_number.resize(at + 1 + at / 16, 0);
        }
        if self.by_number[at] == 0 && ns > 0 {
            self.known.push(whose);
        }
        self.by_number[at] += ns;
    }

    fn add_stretch(&mut self, stretch: &Stretch) {
        stretch.sums.iter().for_each(|&(whose, ns)| self.add(whose, ns));
        self.others_ns += stretch.others_ns;
    }

    /// Returns the sums, in no order, and the time without a name, and sets all of them to 0.
    pub(crate) fn take(&mut self) -> (Box<[(u32, u64)]>, u64) {
        let of = |whose: &u32| (*whose, std::mem::take(&mut self.by_number[*whose as usize]));
        let mut sums: Vec<(u32, u64)> = self.known.iter().map(of).collect();
        self.known.clear();
        let mut others_ns = std::mem::take(&mut self.others_ns);
        if sums.len() > self.most {
            sums.select_nth_unstable_by_key(self.most, |&(whose, ns)| (Reverse(ns), whose));
            others_ns += sums.drain(self.most..).map(|(_, ns)| ns).sum::<u64>();
        }
        (sums.into_boxed_slice(), others_ns)
    }
}

impl History {
    /// The end of the latest span; 0 if there is none.
    pub(crate) fn end_ns(&self) -> u64 {
        let summed = || self.stretches.back().map_or(0, |stretch| stretch.end_ns);
        self.latest.last().map_or_else(summed, |span| span.end_ns)
    }

    /// Takes the next span, which ends after all others.
    #[inline]
    pub(crate) fn push(&mut self, span: Span, sums: &mut Sums) {
        self.latest.push(span);
        if self.latest.len() == 2 * APART {
            self.fold(sums);
        }
    }

    /// The latest spans between two times, at most `most`, oldest first.
    pub(crate) fn latest(&self, from_ns: u64, to_ns: u64, most: usize) -> impl Iterator<Item = Span> {
        let from = self.latest.partition_point(|span| span.end_ns <= from_ns);
        let to = self.latest.partition_point(|span| span.start_ns < to_ns).max(from);
        self.latest[from.max(to.saturating_sub(most))..to]
            .iter()
            .filter_map(move |span| span.within(from_ns, to_ns))
    }

    /// Adds the spans between two times to `sums`. If a stretch lies only partly between them, that part is
    /// added as time without a name.
    pub(crate) fn sum(&self, from_ns: u64, to_ns: u64, sums: &mut Sums) {
        let from = self.stretches.partition_point(|stretch| stretch.end_ns <= from_ns);
        for stretch in self.stretches.range(from..).take_while(|stretch| stretch.start_ns < to_ns) {
            if from_ns <= stretch.start_ns && stretch.end_ns <= to_ns {
                sums.add_stretch(stretch);
            } else {
                let shared_ns = stretch.end_ns.min(to_ns).saturating_sub(stretch.start_ns.max(from_ns));
                let whole_ns = stretch.sums.iter().map(|&(_, ns)| ns).sum::<u64>() + stretch.others_ns;
                sums.others_ns += shared_ns.min(whole_ns);
            }
        }
        let from = self.latest.partition_point(|span| span.end_ns <= from_ns);
        let near = self.latest[from..].iter().take_while(|span| span.start_ns < to_ns);
        for span in near.filter_map(|span| span.within(from_ns, to_ns)) {
            sums.add(span.whose, span.ns());
        }
    }

    #[cold]
    fn fold(&mut self, sums: &mut Sums) {
        debug_assert!(sums.known.is_empty(), "no other sum is under way");
        for at in (0..APART).step_by(FOLDED) {
            let spans = &self.latest[at..at + FOLDED];
            let (start_ns, end_ns) = (spans[0].start_ns, spans[FOLDED - 1].end_ns);
            spans.iter().for_each(|span| sums.add(span.whose, span.ns()));
            let (folded, others_ns) = sums.take();
            self.stretches.push_back(Stretch { level: 0, start_ns, end_ns, sums: folded, others_ns });
            self.coarsen(sums);
        }
        self.latest.drain(..APART);
    }

    fn coarsen(&mut self, sums: &mut Sums) {
        for level in 0..LEVELS {
            let first = self.stretches.partition_point(|stretch| stretch.level > level);
            let many = self.stretches.partition_point(|stretch| stretch.level >= level) - first;
            if many <= EACH {
                return;
            }
            self.join(first, sums);
        }
        // The oldest stretch is dropped: no task has waited for so long.
        self.stretches.pop_front();
    }

    /// Joins the stretch at `first` and the next stretches to one coarser stretch.
    fn join(&mut self, first: usize, sums: &mut Sums) {
        let end_ns = self.stretches[first + JOINED - 1].end_ns;
        for stretch in self.stretches.drain(first + 1..first + JOINED) {
            sums.add_stretch(&stretch);
        }
        let oldest = &mut self.stretches[first];
        sums.add_stretch(oldest);
        let (joined, others_ns) = sums.take();
        let (level, start_ns) = (oldest.level + 1, oldest.start_ns);
        *oldest = Stretch { level, start_ns, end_ns, sums: joined, others_ns };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU that three tasks have in turn, for 1, 2 and 3 us.
    fn turns(count: u32) -> (History, Sums, u64) {
        let (mut history, mut sums, mut now_ns) = (History::default(), Sums::new(2), 0);
        for turn in 0..count {
            let (whose, start_ns) = (turn % 3, now_ns);
            now_ns += u64::from(whose + 1) * 1_000;
            history.push(Span { whose, start_ns, end_ns: now_ns }, &mut sums);
        }
        (history, sums, now_ns)
    }

    #[test]
    fn a_wait_behind_100_000_stays_names_nearly_all_of_them() {
        let (history, mut sums, now_ns) = turns(300_000);
        for parts in [1, 2, 3, 10, 100] {
            let from_ns = now_ns - now_ns / parts + 17;
            history.sum(from_ns, now_ns, &mut sums);
            let (mut by_number, others_ns) = sums.take();
            sort(&mut by_number);
            let named_ns: u64 = by_number.iter().map(|&(_, ns)| ns).sum();
            assert_eq!(named_ns + others_ns, now_ns - from_ns, "every nanosecond has a holder");
            assert!(others_ns < (now_ns - from_ns) / 16, "{others_ns} of {}", now_ns - from_ns);
            assert_eq!(by_number.iter().map(|&(whose, _)| whose).collect::<Vec<_>>(), [2, 1, 0]);
            let share = by_number[0].1 as f64 / named_ns as f64;
            assert!((share - 0.5).abs() < 0.001, "{share}");
        }
    }

    #[test]
    fn the_latest_stays_are_known_exactly() {
        let (history, mut sums, now_ns) = turns(1_000);
        history.sum(now_ns - 7_500, now_ns - 500, &mut sums);
        // The span is 500 ns of the third task, then 1, 2 and 3 us of the three, then 500 ns of the first.
        let mut by_number = sums.take().0;
        sort(&mut by_number);
        assert_eq!(*by_number, [(2, 3_500), (1, 2_000), (0, 1_500)]);
        let latest: Vec<u64> = history.latest(now_ns - 7_500, now_ns - 500, 9).map(Span::ns).collect();
        assert_eq!(latest, [500, 1_000, 2_000, 3_000, 500]);
    }

    #[test]
    fn memory_stays_the_same_however_long_the_past() {
        let (history, ..) = turns(20_000_000);
        assert!(history.stretches.len() <= EACH * usize::from(LEVELS));
        assert!(history.latest.capacity() <= 2 * APART);
    }

    #[test]
    fn those_without_room_in_a_stretch_are_summed_up_as_others() {
        let (mut history, mut sums) = (History::default(), Sums::new(u16::MAX));
        for turn in 0..2 * APART as u64 {
            let span = Span { whose: (turn % 100) as u32, start_ns: turn, end_ns: turn + 1 };
            history.push(span, &mut sums);
        }
        history.sum(0, APART as u64, &mut sums);
        let (by_number, others_ns) = sums.take();
        assert_eq!(by_number.len(), SUMS_MIN);
        assert!(others_ns > 0);
        assert_eq!(by_number.iter().map(|&(_, ns)| ns).sum::<u64>() + others_ns, APART as u64);
    }
}
