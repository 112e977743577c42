//! Decides whether checks pay, by their counts, their costs, and the paper's break-even rule (section 4.3.2).

/// The counts of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// N_h: timers that fired when the kernel's timer expired.
    pub hard: u64,
    /// N_s: timers that a check fired.
    pub soft: u64,
    /// N_c: calls that compared the time with the earliest deadline.
    pub checks: u64,
}

/// The costs of checks and expiries on a machine, in ns of CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// C_h: a timer that the kernel's timer fires, with the sleep and the wake-up around it.
    pub hard_ns: u64,
    /// C_s: a timer that a check fires.
    pub soft_ns: u64,
    /// C_c: a check, with the reading of the clock.
    pub check_ns: u64,
}

/// The costs that the paper measured on its Pentium 4 of 1.5 GHz.
impl Default for Costs {
    fn default() -> Costs {
        Costs { hard_ns: 8_000, soft_ns: 1_000, check_ns: 150 }
    }
}

impl Costs {
    /// Whether checks that fire so many timers cost less than the backstops that they save:
    /// `N_s / N_c > C_c / (C_h - C_s)`. They never do if a backstop costs no more than a check that fires.
    pub fn pay(&self, soft: u64, checks: u64) -> bool {
        let saved_ns = u128::from(self.hard_ns.saturating_sub(self.soft_ns)) * u128::from(soft);
        saved_ns > u128::from(self.check_ns) * u128::from(checks)
    }
}

/// How many checks are counted before a decision.
const WINDOW: u32 = 1024;
/// For how many trigger points checks rest: at first, and at most. Each trial that does not pay doubles it,
/// so at most 1 point in 4, later 1 in 256, is a check that does not pay.
const REST: u32 = 4 * WINDOW;
const LONGEST_REST: u32 = 256 * WINDOW;

/// Decides at which trigger points a program checks.
#[derive(Debug)]
pub(crate) struct Checking {
    is_on: bool,
    /// After how many more trigger points the next decision is due.
    left: u32,
    /// For how many trigger points checks rest next.
    rest: u32,
    /// The counts at the beginning of the window.
    before: Counts,
    pub(crate) costs: Costs,
}

impl Checking {
    pub(crate) fn new(costs: Costs) -> Checking {
        Checking { is_on: true, left: WINDOW, rest: REST, before: Counts::default(), costs }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Passes a trigger point at which the latest decision holds; false if a decision is due.
    #[inline]
    pub(crate) fn passes(&mut self) -> bool {
        self.left -= 1;
        self.left != 0
    }

    /// Ends a rest: a window of checks begins.
    pub(crate) fn wake(&mut self, counts: &Counts) {
        if !self.is_on {
            (self.is_on, self.left, self.before) = (true, WINDOW, *counts);
        }
    }

    /// Decides anew. Checks stay on while they pay, or while a soft timer waits, which nothing else fires.
    #[cold]
    pub(crate) fn decide(&mut self, counts: &Counts, soft_waiting: usize) -> bool {
        let soft = counts.soft - self.before.soft;
        let checks = counts.checks - self.before.checks;
        self.before = *counts;
        if !self.is_on {
            self.wake(counts);
        } else if self.costs.pay(soft, checks) || soft_waiting > 0 {
            (self.left, self.rest) = (WINDOW, REST);
        } else {
            (self.is_on, self.left) = (false, self.rest);
            self.rest = (2 * self.rest).min(LONGEST_REST);
        }
        self.is_on
    }
}
