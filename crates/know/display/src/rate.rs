//! Limits of rates: so many times a second, and at most as many at once; and pauses that grow. The time
//! is an argument.

use std::time::{Duration, Instant};

/// The screens a second that one process can draw, ppm of a screen: as many as the eyes look.
pub(crate) const SCREENS_PPM: u32 = 50_000_000;

/// An allowance that is used up and grows again with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    left: f64,
    a_second: f64,
    as_of: Instant,
}

impl Allowance {
    /// A whole allowance: as much as there is for a second.
    pub(crate) fn of(a_second: u32, now: Instant) -> Allowance {
        Allowance { left: a_second.into(), a_second: a_second.into(), as_of: now }
    }

    /// Takes one unit, if one is left. Returns whether it was taken.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.up_to(1.0, now) >= 1.0
    }

    /// Takes as much of `wanted` as there is, rounded down. Returns how much.
    fn up_to(&mut self, wanted: f64, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.as_of).as_secs_f64() * self.a_second;
        self.left = (self.left + earned).min(self.a_second);
        self.as_of = self.as_of.max(now);
        let taken = wanted.min(self.left.floor());
        self.left -= taken;
        taken
    }

    /// Takes as much of `wanted` as there is. Returns how much.
    pub(crate) fn take_up_to(&mut self, wanted: u64, now: Instant) -> u64 {
        self.up_to(wanted as f64, now) as u64
    }
}

/// A pause that doubles with each time in a row, beginning with the second time, up to `most`.
pub fn pause_after(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(1 << times.saturating_sub(1).min(16)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_worth_is_there_at_once_and_comes_back_in_a_second() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut allowance = Allowance::of(10, start);
        assert_eq!(allowance.take_up_to(25, start), 10);
        assert!(!allowance.take(after(50)));
        assert!(allowance.take(after(100)) && !allowance.take(after(100)));
        // If the clock stands still or goes back, the allowance does not grow.
        assert!(!allowance.take(start));
        assert_eq!(allowance.take_up_to(25, after(600)), 5);
        assert_eq!(allowance.take_up_to(25, after(60_000)), 10);
    }
}
