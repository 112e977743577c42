//! Proposes a reservation for a task from the times of its wake-ups and from its run times.

use crate::terms::{OnExhaustion, PERIOD_MAX_NS, PERIOD_MIN_NS, Terms};

/// The least number of wake-ups from which a period is taken.
const WAKEUPS_MIN: usize = 20;
/// The percentile of the run times between wake-ups from which the budget is taken.
const QUANTILE_PERCENT: usize = 99;
/// The margin that is added to this percentile, percent.
const MARGIN_PERCENT: u64 = 10;
/// By how many percent an interval may differ from the period and still be regular.
const TOLERANCE_PERCENT: u64 = 10;
/// Budgets are rounded up to multiples of this, periods to the nearest multiple, ns.
const ROUND_NS: u64 = 1_000;

/// The times at which a task was woken, and its run times, in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// When the task was woken, ns.
    woken_ns: Vec<u64>,
    /// How long the task ran after each wake-up until the next, ns.
    ran_ns: Vec<u64>,
}

impl Activity {
    /// The task was woken.
    pub fn woken(&mut self, time_ns: u64) {
        self.woken_ns.push(time_ns);
        self.ran_ns.push(0);
    }

    /// The task ran. Run time before the first wake-up does not count.
    pub fn ran(&mut self, ran_ns: u64) {
        if let Some(last) = self.ran_ns.last_mut() {
            *last += ran_ns;
        }
    }

    /// The CPU time since the first wake-up, ns.
    pub fn total_ns(&self) -> u64 {
        self.ran_ns.iter().sum()
    }

    /// How often the task was woken.
    pub fn wakeups(&self) -> usize {
        self.woken_ns.len()
    }
}

/// A reservation that would fit a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The reservation.
    pub terms: Terms,
    /// How often the task was woken.
    pub wakeups: usize,
    /// The median of the intervals between wake-ups, ns.
    pub interval_ns: u64,
    /// How many of a hundred intervals differ from the median by at most a tenth.
    pub regular_percent: u64,
    /// How long the task ran from a wake-up to the next: the median, ns.
    pub ran_median_ns: u64,
    /// The run time that 99 of 100 such times do not exceed, ns.
    pub ran_high_ns: u64,
    /// The longest such time, ns.
    pub ran_most_ns: u64,
}

/// Why no reservation can be proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoProposal {
    /// The task was woken too seldom for a period to be found.
    #[error("it was woken {wakeups} times, and a period takes {} at least: record longer", WAKEUPS_MIN)]
    TooFew {
        /// How often it was woken.
        wakeups: usize,
    },
    /// The task's period is longer than a reservation's can be.
    #[error("it is woken every {:.1} s, and the longest period is {} s", *.interval_ns as f64 / 1e9, PERIOD_MAX_NS / 1_000_000_000)]
    TooSeldom {
        /// The median interval between wake-ups, ns.
        interval_ns: u64,
    },
}

/// Proposes a reservation: the period is the median interval between wake-ups. The budget is enough for
/// nearly all periods, with a margin. Work after the last wake-up may be cut off, and is left out.
///
/// # Errors
/// If the activity has too few wake-ups, or a period that is too long to be reserved.
pub fn propose(activity: &Activity) -> Result<Proposal, NoProposal> {
    let wakeups = activity.wakeups();
    if wakeups < WAKEUPS_MIN {
        return Err(NoProposal::TooFew { wakeups });
    }
    let mut intervals: Vec<u64> =
        activity.woken_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    let mut ran = activity.ran_ns[..wakeups - 1].to_vec();
    intervals.sort_unstable();
    ran.sort_unstable();
    let interval_ns = quantile(&intervals, 50).max(1);
    if interval_ns > PERIOD_MAX_NS {
        return Err(NoProposal::TooSeldom { interval_ns });
    }
    // A task may be woken more often than the shortest period allows. It gets the time of several wake-ups.
    let together = PERIOD_MIN_NS.div_ceil(interval_ns);
    let period_ns = ((interval_ns * together + ROUND_NS / 2) / ROUND_NS * ROUND_NS).min(PERIOD_MAX_NS);
    let ran_high_ns = quantile(&ran, QUANTILE_PERCENT);
    let wanted_ns = ran_high_ns.saturating_mul(together).saturating_mul(100 + MARGIN_PERCENT) / 100;
    let budget_ns = (wanted_ns.max(1).div_ceil(ROUND_NS) * ROUND_NS).min(period_ns);
    let is_regular = |interval: u64| interval.abs_diff(interval_ns) * 100 <= interval_ns * TOLERANCE_PERCENT;
    let regular = intervals.iter().filter(|&&interval| is_regular(interval)).count();
    Ok(Proposal {
        terms: Terms { budget_ns, period_ns, on_exhaustion: OnExhaustion::Wait },
        wakeups,
        interval_ns,
        regular_percent: (regular * 100 / intervals.len()) as u64,
        ran_median_ns: quantile(&ran, 50),
        ran_high_ns,
        ran_most_ns: ran.last().copied().unwrap_or(0),
    })
}

/// A quantile of sorted numbers: so many percent of them are at most as large.
fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that is woken at each interval and then runs for the time of `ran_us`, us.
    fn activity(intervals_us: impl IntoIterator<Item = u64>, ran_us: impl Fn(usize) -> u64) -> Activity {
        let mut activity = Activity::default();
        let mut time_us = 5;
        activity.ran(77_000);
        for (at, interval_us) in intervals_us.into_iter().enumerate() {
            activity.woken(time_us * 1_000);
            activity.ran(ran_us(at) * 600);
            activity.ran(ran_us(at) * 400);
            time_us += interval_us;
        }
        activity
    }

    #[test]
    fn a_regular_task_gets_its_period_and_its_need_with_a_margin() {
        let task = activity([8_192; 500], |at| if at % 100 == 7 { 3_000 } else { 2_000 });
        let proposal = propose(&task).unwrap();
        let terms = Terms { budget_ns: 3_300_000, period_ns: 8_192_000, on_exhaustion: OnExhaustion::Wait };
        assert_eq!((proposal.terms, proposal.regular_percent, proposal.wakeups), (terms, 100, 500));
        assert_eq!((proposal.ran_median_ns, proposal.ran_most_ns), (2_000_000, 3_000_000));
        assert_eq!(task.total_ns(), 500 * 2_000_000 + 5 * 1_000_000);
    }

    #[test]
    fn one_outlier_of_a_thousand_does_not_make_the_budget() {
        let task = activity([10_000; 1_000], |at| if at == 500 { 9_000 } else { 1_000 });
        assert_eq!(propose(&task).unwrap().terms.budget_ns, 1_100_000);
    }

    #[test]
    fn a_proposal_reports_the_regularity() {
        let task = activity((0..400).map(|at| if at % 4 == 0 { 20_000 } else { 5_000 + at % 7 }), |_| 100);
        let proposal = propose(&task).unwrap();
        // A quarter of the intervals is longer, so the median is the two-thirds point of the others.
        assert_eq!(proposal.terms.period_ns, 5_004_000);
        assert!((74..=76).contains(&proposal.regular_percent), "{proposal:?}");
    }

    #[test]
    fn wake_ups_closer_than_the_least_period_share_a_period() {
        let proposal = propose(&activity([30; 1_000], |_| 10)).unwrap();
        assert_eq!((proposal.terms.period_ns, proposal.terms.budget_ns), (120_000, 44_000));
        let always = propose(&activity([200; 100], |_| 200)).unwrap();
        assert_eq!((always.terms.period_ns, always.terms.budget_ns), (200_000, 200_000));
        assert_eq!(always.terms.check(), Ok(()));
    }

    #[test]
    fn activity_without_a_period_gets_no_proposal() {
        assert_eq!(propose(&activity([1_000; 19], |_| 1)), Err(NoProposal::TooFew { wakeups: 19 }));
        let seldom = propose(&activity([5_000_000; 30], |_| 1)).unwrap_err();
        assert_eq!(seldom.to_string(), "it is woken every 5.0 s, and the longest period is 4 s");
    }
}
