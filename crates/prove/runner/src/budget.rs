//! A task that never sleeps and measures the CPU time that it gets. It is the program of Time-Sensitive
//! Linux's table 1 (Goel et al. 2002, 4.2.2), which stores the time again and again.

use std::fs;
use std::io;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spry_sys::attributes::Attributes;
use spry_sys::clock::monotonic_ns;

/// The source of the task's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Giver {
    /// Another process gives the budget within 0.9 s.
    Another,
    /// The kernel gives the budget: the task requests SCHED_DEADLINE.
    Deadline,
    /// The scheduler's daemon gives the budget: the task requests it by `spry reserve`.
    Reservation,
}

/// The parameters of the measurement.
#[derive(Clone, Debug)]
pub struct WatchParameters {
    /// The name that the task gives itself.
    pub name: String,
    /// The length of the measurement, ns.
    pub for_ns: u64,
    /// The CPU time in each period, ns.
    pub budget_ns: u64,
    /// The length of a period, ns.
    pub period_ns: u64,
    /// The source of the budget.
    pub giver: Giver,
    /// Gaps that are shorter than this count as time that the task ran, ns.
    pub seen_ns: u64,
    /// The length of the beginning that does not count, except for the first period, ns: other tasks of the
    /// same measurement may still start.
    pub settle_ns: u64,
}

/// How many periods at the beginning do not count: the first period, and the period that the
/// task enters late.
const LEFT_OUT: usize = 2;
/// The pause after the measurement, before its results are computed: tasks beside this one may still measure.
const REST: Duration = Duration::from_millis(300);
/// Fewer periods than this mean that the task had no budget.
const PERIODS_MIN: usize = 10;
/// The most gaps that are stored.
const GAPS_MAX: usize = 1_000_000;
/// The number of periods over which allocations are added up.
const TOGETHER: usize = 100;

/// A stretch of time in which the task did not run, ns.
#[derive(Clone, Copy)]
struct Gap {
    from_ns: u64,
    to_ns: u64,
}

/// One period of the task: the time at which it began to run, its CPU time, and the time of the gaps within
/// the period, ns.
#[derive(Clone, Copy, Default)]
struct Job {
    begins_ns: u64,
    ran_ns: u64,
    stolen_ns: u64,
}

/// The CPU time that the task got, over all periods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GivenTime {
    /// How many periods count.
    pub periods: usize,
    /// The CPU time in the first period, us.
    pub first_us: f64,
    /// The most by which a period began too early, us. The reference is the even grid that fits all begins
    /// of periods best.
    pub early_us: f64,
    /// The most by which a period began too late, by the same grid, us.
    pub late_us: f64,
    /// The CPU time beyond the budget, us: the mean of all periods. It is negative if the task got less.
    pub mean_us: f64,
    /// The CPU time beyond the budget, us: the least of all periods.
    pub least_us: f64,
    /// The CPU time beyond the budget, us: the most of all periods.
    pub most_us: f64,
    /// The CPU time beyond the budgets of 100 periods in a row, percent of these budgets: the least. 0 if
    /// there are fewer than 100 periods.
    pub hundred_least_percent: f64,
    /// The CPU time beyond the budgets of 100 periods in a row, percent of these budgets: the most. 0 if
    /// there are fewer than 100 periods.
    pub hundred_most_percent: f64,
    /// The time of the gaps within a period, us: the mean of all periods.
    pub stolen_us: f64,
}

/// Gives the calling thread the task's name, and measures.
///
/// # Errors
/// If the task gets no budget.
pub fn watch(watching: &WatchParameters) -> io::Result<GivenTime> {
    fs::write("/proc/thread-self/comm", &watching.name)?;
    // The memory of the gaps is written before the task has a budget: pages that were never written do not
    // exist.
    let mut gaps = vec![Gap { from_ns: 1, to_ns: 1 }; GAPS_MAX];
    look(&mut gaps, 1_000_000, watching.seen_ns);
    ask(watching)?;
    let began_ns = look(&mut gaps, watching.for_ns, watching.seen_ns);
    std::thread::sleep(REST);
    let least_ns = watching.period_ns.saturating_sub(watching.budget_ns) / 4;
    given(&jobs(began_ns, &gaps, least_ns), watching)
        .ok_or_else(|| io::Error::other(format!("{} had no budget in periods", watching.name)))
}

/// Stores every gap within `for_ns`. Returns the time at the beginning, ns.
fn look(gaps: &mut Vec<Gap>, for_ns: u64, seen_ns: u64) -> u64 {
    gaps.clear();
    let began_ns = monotonic_ns();
    let mut last_ns = began_ns;
    loop {
        let now_ns = monotonic_ns();
        if now_ns - last_ns >= seen_ns && gaps.len() < GAPS_MAX {
            gaps.push(Gap { from_ns: last_ns, to_ns: now_ns });
        }
        last_ns = now_ns;
        if now_ns - began_ns >= for_ns {
            return began_ns;
        }
    }
}

fn ask(watching: &WatchParameters) -> io::Result<()> {
    let (budget_ns, period_ns) = (watching.budget_ns, watching.period_ns);
    match watching.giver {
        Giver::Another => std::thread::sleep(Duration::from_millis(900)),
        Giver::Deadline => Attributes::deadline(budget_ns, period_ns, period_ns).give(0)?,
        Giver::Reservation => {
            let us = |ns: u64| format!("{}.{:03}us", ns / 1000, ns % 1000);
            let mut command = Command::new("spry");
            command.args(["reserve", "--budget", &us(budget_ns), "--period", &us(period_ns)]);
            let asked = command.args(["--tid", &std::process::id().to_string()]).output()?;
            if !asked.status.success() {
                let said = String::from_utf8_lossy(&asked.stderr);
                return Err(io::Error::other(said.trim().trim_start_matches("spry: ").to_owned()));
            }
        }
    }
    Ok(())
}

/// Divides the time into periods: a gap of `least_ns` or more ends a period.
fn jobs(began_ns: u64, gaps: &[Gap], least_ns: u64) -> Vec<Job> {
    let mut all = Vec::new();
    let mut job = Job { begins_ns: began_ns, ..Job::default() };
    let mut since_ns = began_ns;
    for gap in gaps {
        job.ran_ns += gap.from_ns - since_ns;
        since_ns = gap.to_ns;
        let gap_ns = gap.to_ns - gap.from_ns;
        if gap_ns >= least_ns {
            all.push(std::mem::replace(&mut job, Job { begins_ns: gap.to_ns, ..Job::default() }));
        } else {
            job.stolen_ns += gap_ns;
        }
    }
    all
}

fn given(all: &[Job], watching: &WatchParameters) -> Option<GivenTime> {
    let counts_ns = all.first()?.begins_ns + watching.settle_ns;
    let settled = all.iter().take_while(|job| job.begins_ns < counts_ns).count();
    let jobs = all.get(settled.max(LEFT_OUT)..).filter(|jobs| jobs.len() >= PERIODS_MIN)?;
    let (budget_ns, count) = (watching.budget_ns as f64, jobs.len() as f64);
    let (early_ns, late_ns) = boundaries(jobs, watching.period_ns as f64);
    let over_ns: Vec<f64> = jobs.iter().map(|job| job.ran_ns as f64 - budget_ns).collect();
    let (least_ns, most_ns) = ends(over_ns.iter().copied());
    let percent = |some: &[f64]| some.iter().sum::<f64>() / (TOGETHER as f64 * budget_ns) * 100.0;
    let (hundred_least, hundred_most) = match over_ns.len() {
        ..TOGETHER => (0.0, 0.0),
        _ => ends(over_ns.windows(TOGETHER).map(percent)),
    };
    let us = |ns: f64| ns / 1000.0;
    Some(GivenTime {
        periods: jobs.len(),
        first_us: us(all[0].ran_ns as f64),
        early_us: us(early_ns),
        late_us: us(late_ns),
        mean_us: us(over_ns.iter().sum::<f64>() / count),
        least_us: us(least_ns),
        most_us: us(most_ns),
        hundred_least_percent: hundred_least,
        hundred_most_percent: hundred_most,
        stolen_us: us(jobs.iter().map(|job| job.stolen_ns as f64).sum::<f64>() / count),
    })
}

/// The greatest times by which periods began early and late, ns. The grid of periods lies at the median
/// offset of the jobs.
fn boundaries(jobs: &[Job], period_ns: f64) -> (f64, f64) {
    let first_ns = jobs[0].begins_ns;
    let offset = |job: &Job| {
        let since_ns = (job.begins_ns - first_ns) as f64;
        since_ns - (since_ns / period_ns).round() * period_ns
    };
    let mut offsets: Vec<f64> = jobs.iter().map(offset).collect();
    offsets.sort_by(f64::total_cmp);
    let median = offsets[offsets.len() / 2];
    (median - offsets[0], offsets[offsets.len() - 1] - median)
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)))
}

impl GivenTime {
    /// The values in one line.
    pub fn line(&self, name: &str) -> String {
        format!(
            "{name} periods {} begins early {:.1} late {:.1} us; allocation mean {:+.2} least {:+.1} \
             most {:+.1} us; 100 periods {:+.3} to {:+.3} %; gaps in a period {:.1} us; first period {:.1} us",
            self.periods,
            self.early_us,
            self.late_us,
            self.mean_us,
            self.least_us,
            self.most_us,
            self.hundred_least_percent,
            self.hundred_most_percent,
            self.stolen_us,
            self.first_us
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching() -> WatchParameters {
        let (budget_ns, period_ns) = (40_000, 100_000);
        WatchParameters {
            name: "x".into(),
            for_ns: 0,
            budget_ns,
            period_ns,
            giver: Giver::Another,
            seen_ns: 700,
            settle_ns: 0,
        }
    }

    /// Gaps of periods. Each pair has a period's offset from the grid and its CPU time beyond the budget, ns.
    fn gaps(periods: &[(i64, i64)]) -> Vec<Gap> {
        let at = |period: usize, off_ns: i64| (1_000_000 + period as i64 * 100_000 + off_ns) as u64;
        let gap = |(nth, pair): (usize, &[(i64, i64)])| Gap {
            from_ns: at(nth, pair[0].0 + 40_000 + pair[0].1),
            to_ns: at(nth + 1, pair[1].0),
        };
        periods.windows(2).enumerate().map(gap).collect()
    }

    #[test]
    fn deviations_are_told_without_the_first_two_periods() {
        let mut periods = vec![(0, 0); 120];
        periods[0].1 = 30_000;
        periods[1].0 = 900;
        periods[50] = (2_000, -1_000);
        periods[60] = (-500, 3_000);
        let given = given(&jobs(1_000_000, &gaps(&periods), 15_000), &watching()).expect("it has periods");
        assert_eq!((given.periods, given.first_us), (117, 70.0));
        assert_eq!((given.early_us, given.late_us), (0.5, 2.0));
        assert_eq!((given.least_us, given.most_us), (-1.0, 3.0));
        assert!((given.hundred_most_percent - 2000.0 / 4_000_000.0 * 100.0).abs() < 1e-9, "{given:?}");
    }

    #[test]
    fn periods_before_the_task_has_settled_do_not_count() {
        let mut periods = vec![(0, 0); 40];
        periods[5] = (3_000, 2_000);
        let jobs = jobs(1_000_000, &gaps(&periods), 15_000);
        let settled =
            given(&jobs, &WatchParameters { settle_ns: 1_000_000, ..watching() }).expect("it has periods");
        assert_eq!((settled.periods, settled.late_us, settled.most_us), (29, 0.0, 0.0));
    }

    #[test]
    fn short_gaps_are_stolen_and_end_no_period() {
        let mut all = gaps(&[(0, 0); 20]);
        all.insert(5, Gap { from_ns: 1_510_000, to_ns: 1_515_000 });
        let jobs = jobs(1_000_000, &all, 15_000);
        assert_eq!((jobs.len(), jobs[5].ran_ns, jobs[5].stolen_ns), (19, 35_000, 5_000));
    }

    #[test]
    fn a_task_that_nothing_interrupts_has_no_budget() {
        assert!(given(&jobs(0, &gaps(&[(0, 0); 5]), 15_000), &watching()).is_none());
    }
}
