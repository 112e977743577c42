//! The budget that a thread needs, from its run time in each of many periods.

/// The budget covers the run time of so many of a thousand periods; the margin is added to that, percent.
const QUANTILE_PERMILLE: usize = 990;
const MARGIN_PERCENT: u64 = 10;
/// A budget with rare work covers so many of a thousand periods. Rare work counts up to this part of the
/// period: two such budgets fit into the quarter of a CPU that a user may reserve.
const RARE_PERMILLE: usize = 999;
const RARE_PART: u64 = 8;
/// A budget is at least this, or a tenth of the period if that is less, ns. A thread that did little during
/// the measurement may get more work later, and switching to the thread takes time, too.
const FLOOR_NS: u64 = 100_000;
/// Budgets are multiples of this, ns.
const ROUND_NS: u64 = 1_000;
/// An exhausted budget grows by this, percent, up to `MOST_PERCENT` of the period.
const GROWTH_PERCENT: u64 = 50;
const MOST_PERCENT: u64 = 50;

/// The measured run times of a thread.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// The run time of each reading, scaled to one period, ns.
    ran_ns: Vec<u64>,
}

impl Busy {
    /// Whether two readings are far enough apart. Closer readings cover too little of a period; readings that
    /// are further apart cover several periods.
    #[must_use]
    pub const fn is_enough(elapsed_ns: u64, period_ns: u64) -> bool {
        elapsed_ns >= period_ns / 4 * 3
    }

    /// Takes the run time between two readings, which are `elapsed_ns` apart.
    pub fn take(&mut self, ran_ns: u64, elapsed_ns: u64, period_ns: u64) {
        if Busy::is_enough(elapsed_ns, period_ns) {
            let of_a_period = u128::from(ran_ns) * u128::from(period_ns) / u128::from(elapsed_ns.max(1));
            self.ran_ns.push(u64::try_from(of_a_period).unwrap_or(u64::MAX));
        }
    }

    /// Whether the thread ran at all.
    pub fn is_used(&self) -> bool {
        self.ran_ns.iter().any(|&ran_ns| ran_ns > 0)
    }

    /// The run time that the thread does not exceed in 99 of 100 periods, ns.
    pub fn high_ns(&self) -> u64 {
        self.quantile_ns(QUANTILE_PERMILLE)
    }

    fn quantile_ns(&self, permille: usize) -> u64 {
        let mut sorted = self.ran_ns.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * permille).div_ceil(1000).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0)
    }

    /// The budget that the thread needs in each period, ns.
    pub fn budget_ns(&self, period_ns: u64) -> u64 {
        let floor_ns = FLOOR_NS.min(period_ns / 10).max(1);
        rounded_ns(with_margin_ns(self.high_ns()).max(floor_ns)).min(period_ns)
    }

    /// The budget of a thread that must not be late once in some hundred periods, ns. It also covers rare
    /// work, such as reading the next part of a file.
    pub fn budget_with_rare_ns(&self, period_ns: u64) -> u64 {
        let rare_ns = with_margin_ns(self.quantile_ns(RARE_PERMILLE)).min(period_ns / RARE_PART);
        self.budget_ns(period_ns).max(rounded_ns(rare_ns).min(period_ns))
    }
}

const fn with_margin_ns(ran_ns: u64) -> u64 {
    ran_ns.saturating_mul(100 + MARGIN_PERCENT) / 100
}

const fn rounded_ns(budget_ns: u64) -> u64 {
    budget_ns.div_ceil(ROUND_NS) * ROUND_NS
}

/// The next budget after a budget that was exhausted, ns.
pub fn larger_budget_ns(budget_ns: u64, period_ns: u64) -> u64 {
    let most_ns = most_budget_ns(period_ns).max(budget_ns);
    (budget_ns.saturating_mul(100 + GROWTH_PERCENT) / 100).min(most_ns)
}

/// The largest budget that is reached by growth, ns.
pub const fn most_budget_ns(period_ns: u64) -> u64 {
    period_ns / 100 * MOST_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 2_666_667;

    fn busy(ran_ns: impl IntoIterator<Item = u64>) -> Busy {
        let mut busy = Busy::default();
        ran_ns.into_iter().for_each(|ran_ns| busy.take(ran_ns, PERIOD_NS, PERIOD_NS));
        busy
    }

    #[test]
    fn a_budget_is_the_99th_percentile_of_run_time_and_a_tenth_more() {
        let found = busy((0..1_000).map(|at| if at % 200 == 7 { 900_000 } else { 200_000 }));
        assert_eq!((found.high_ns(), found.budget_ns(PERIOD_NS)), (200_000, 220_000));
        let often = busy((0..1_000).map(|at| if at % 50 == 7 { 900_000 } else { 200_000 }));
        assert_eq!(often.budget_ns(PERIOD_NS), 990_000);
        assert_eq!(busy([9_000_000; 9]).budget_ns(PERIOD_NS), PERIOD_NS);
    }

    #[test]
    fn a_budget_with_rare_work_covers_what_comes_again() {
        // A player reads ahead in its file once in 256 periods.
        let reads = busy((0..1_125).map(|at| if at % 256 == 7 { 235_000 } else { 14_000 }));
        assert_eq!((reads.budget_ns(PERIOD_NS), reads.budget_with_rare_ns(PERIOD_NS)), (100_000, 259_000));
        let once = busy((0..1_125).map(|at| if at == 7 { 235_000 } else { 14_000 }));
        assert_eq!(once.budget_with_rare_ns(PERIOD_NS), 100_000);
    }

    #[test]
    fn rare_work_counts_up_to_an_eighth_of_the_period() {
        let rare = busy((0..1_125).map(|at| if at % 256 == 7 { 2_000_000 } else { 14_000 }));
        assert_eq!(rare.budget_with_rare_ns(PERIOD_NS), 334_000);
        let often = busy([900_000; 1_000]);
        assert_eq!(often.budget_with_rare_ns(PERIOD_NS), often.budget_ns(PERIOD_NS));
    }

    #[test]
    fn the_least_budget_is_at_most_a_tenth_of_the_period() {
        assert_eq!(busy([20_000; 300]).budget_ns(PERIOD_NS), 100_000);
        assert_eq!(busy([20_000; 300]).budget_ns(500_000), 50_000);
        assert!(!busy([0; 300]).is_used() && busy([0, 1]).is_used());
    }

    #[test]
    fn a_late_reading_counts_its_periods_and_an_early_one_none() {
        let mut found = Busy::default();
        found.take(600_000, 3 * PERIOD_NS, PERIOD_NS);
        found.take(500_000, PERIOD_NS / 2, PERIOD_NS);
        assert_eq!(found.ran_ns, [200_000]);
    }

    #[test]
    fn a_budget_that_is_used_up_grows_by_half_to_half_of_the_period() {
        assert_eq!(larger_budget_ns(100_000, PERIOD_NS), 150_000);
        assert_eq!(larger_budget_ns(1_200_000, PERIOD_NS), 1_333_300);
        assert_eq!(larger_budget_ns(2_000_000, PERIOD_NS), 2_000_000);
    }
}
