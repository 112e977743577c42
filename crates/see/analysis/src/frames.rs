//! The periodic wake-ups that clock ticks would skip, if timers expired only at ticks. A player skips a frame
//! that is late by more than half of a frame's time (Etsion, Tsafrir, Feitelson 2003, section 5).

use spry_timeline::{TaskIndex, Timeline, Waking};
use spry_trace::Stamped;
use spry_trace::event::Event;

use crate::analysis::{Closing, PerTask};
use crate::expiry::Expiry;
use crate::findings::{FramesFinding, SkippedFinding};

/// The number of phases, evenly over a tick's period, for which the ticks are placed.
const SHIFTS: u64 = 24;
/// A thread with fewer wake-ups by timers has no period.
const COUNT_LEAST: usize = 20;
/// The most wake-ups by timers that count for one thread.
const COUNT_MOST: usize = 65_536;
/// The part of the intervals that must be near the median, and how near, as a part of the median.
const REGULAR: f64 = 0.8;
const NEAR: f64 = 0.25;

/// Collects the deadlines of timers, by the threads that they woke.
pub(crate) struct Frames {
    rates_hz: Vec<u32>,
    cpus: Vec<Option<Expiry>>,
    deadlines_ns: PerTask<Vec<u64>>,
}

impl Frames {
    /// For ticks at these rates, Hz.
    pub(crate) fn new(rates_hz: Vec<u32>) -> Frames {
        Frames { rates_hz, cpus: Vec::new(), deadlines_ns: PerTask::default() }
    }

    pub(crate) fn other(&mut self, now: &Timeline, event: &Stamped) {
        let Event::TimerExpire(timer) = &event.event else { return };
        let at = usize::from(event.cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, None);
        }
        self.cpus[at] = Some(Expiry::of(timer, now.now_ns()));
    }

    pub(crate) fn waking(&mut self, now: &Timeline, waking: &Waking) {
        let Some(Some(expiry)) = self.cpus.get(usize::from(waking.cpu)) else { return };
        if expiry.causes(waking, now.task(waking.task).tid()) {
            let known = self.deadlines_ns.at(waking.task);
            if known.len() < COUNT_MOST {
                known.push(expiry.deadline_ns);
            }
        }
    }

    /// The selected threads that timers woke periodically, most wake-ups first.
    pub(crate) fn finish(mut self, closing: &Closing<'_>) -> Vec<FramesFinding> {
        let mut found = Vec::new();
        for &task in closing.rows {
            found.extend(self.of_task(closing, task));
        }
        found.sort_by_key(|frames| std::cmp::Reverse(frames.count));
        found
    }

    fn of_task(&mut self, closing: &Closing<'_>, task: TaskIndex) -> Option<FramesFinding> {
        let mut deadlines_ns = self.deadlines_ns.take(task);
        deadlines_ns.sort_unstable();
        let period_ns = period(&deadlines_ns)?;
        let skipped = self.rates_hz.iter().map(|&hz| skipped(&deadlines_ns, period_ns, hz)).collect();
        let count = deadlines_ns.len() as u64;
        Some(FramesFinding { who: closing.who(task), period_ns, count, skipped })
    }
}

/// The median of the intervals between these deadlines, ns; `None` if they are too few or not regular.
fn period(deadlines_ns: &[u64]) -> Option<u64> {
    if deadlines_ns.len() < COUNT_LEAST {
        return None;
    }
    let mut intervals_ns: Vec<u64> = deadlines_ns.windows(2).map(|pair| pair[1] - pair[0]).collect();
    intervals_ns.sort_unstable();
    let median_ns = intervals_ns[intervals_ns.len() / 2];
    let is_near = |&&ns: &&u64| ns.abs_diff(median_ns) as f64 <= NEAR * median_ns as f64;
    let near = intervals_ns.iter().filter(is_near).count();
    (median_ns > 0 && near as f64 >= REGULAR * intervals_ns.len() as f64).then_some(median_ns)
}

/// The share of wake-ups that `hz` ticks a second would make later than half of `period_ns`.
fn skipped(deadlines_ns: &[u64], period_ns: u64, hz: u32) -> SkippedFinding {
    let tick_ns = 1_000_000_000 / u64::from(hz);
    // Half a step into each shift, so that no deadline lies on a tick by chance.
    let shifts_ns = (0..SHIFTS).map(|nth| (2 * nth + 1) * tick_ns / (2 * SHIFTS));
    let is_late = |deadline_ns: u64, shift_ns: u64| {
        let since_tick_ns = (deadline_ns % tick_ns + tick_ns - shift_ns) % tick_ns;
        since_tick_ns > 0 && tick_ns - since_tick_ns > period_ns / 2
    };
    let shares = shifts_ns.map(|shift_ns| {
        let late = deadlines_ns.iter().filter(|&&deadline_ns| is_late(deadline_ns, shift_ns)).count();
        late as f64 / deadlines_ns.len() as f64
    });
    let (mut least, mut most, mut sum) = (1.0f64, 0.0f64, 0.0);
    for share in shares {
        (least, most, sum) = (least.min(share), most.max(share), sum + share);
    }
    SkippedFinding { hz, mean: sum / SHIFTS as f64, least, most }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(per_s: u64) -> Vec<u64> {
        (0..600).map(|nth| 1_000_000_000 + nth * 1_000_000_000 / per_s).collect()
    }

    #[test]
    fn at_100_hz_half_of_the_phases_skip_a_third_of_60_frames() {
        let film = frames(60);
        let period_ns = period(&film).expect("it is regular");
        assert_eq!(period_ns, 16_666_667);
        let found = skipped(&film, period_ns, 100);
        assert_eq!(found.least, 0.0);
        assert!((found.most - 1.0 / 3.0).abs() < 0.01, "{found:?}");
        assert!((found.mean - 1.0 / 6.0).abs() < 0.01, "{found:?}");
        assert_eq!(skipped(&film, period_ns, 250).most, 0.0);
    }

    #[test]
    fn a_film_of_the_tick_s_own_rate_is_shown_whole_or_not_at_all() {
        let film = frames(100);
        let found = skipped(&film, period(&film).expect("it is regular"), 100);
        assert_eq!((found.least, found.most), (0.0, 1.0));
        assert!((found.mean - 0.5).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn deadlines_at_the_end_of_time_are_deadlines_like_others() {
        let film: Vec<u64> = (0..30).map(|nth| u64::MAX - nth * 20_000_000).rev().collect();
        let found = skipped(&film, period(&film).expect("it is regular"), 50);
        assert_eq!((found.least, found.most), (0.0, 1.0));
    }

    #[test]
    fn irregular_and_few_wake_ups_have_no_period() {
        assert_eq!(period(&frames(60)[..10]), None);
        assert_eq!(period(&[]), None);
        let powers: Vec<u64> = (0..40).map(|nth| 1 << nth).collect();
        assert_eq!(period(&powers), None);
        assert_eq!(period(&[7; 30]), None);
    }
}
