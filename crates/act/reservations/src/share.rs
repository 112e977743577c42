//! Sums of shares of a CPU, without rounding as long as numbers of 128 bits hold them.

use std::collections::BTreeMap;

use crate::{BUDGET_MIN_NS, Terms};

/// Shares in settings are in parts of this.
pub const MILLION: u32 = 1_000_000;

/// The sum of some reservations' shares of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sum {
    /// The sum is this fraction.
    Exact { num: u128, den: u128 },
    /// The sum is at most so many parts of 2^64: the periods have no common multiple of 128 bits.
    AtMost { parts: u128 },
}

const ONE: u128 = 1 << 64;

impl Sum {
    /// The sum of the terms' shares. It depends on the terms alone, not on their order.
    pub fn of(terms: impl IntoIterator<Item = Terms>) -> Sum {
        let mut by_period: BTreeMap<u64, u128> = BTreeMap::new();
        for Terms { budget_ns, period_ns, .. } in terms {
            *by_period.entry(period_ns).or_default() += u128::from(budget_ns);
        }
        let exact = by_period.iter().try_fold((0, 1), |sum, (&period, &budget)| {
            let common = gcd(budget, u128::from(period)).max(1);
            add(sum, (budget / common, u128::from(period) / common))
        });
        // A product with a share in millionths must have room, too.
        let room = u128::from(MILLION) * 4;
        match exact.filter(|(num, den)| num.checked_mul(room).and(den.checked_mul(room)).is_some()) {
            Some((num, den)) => Sum::Exact { num, den },
            None => {
                Sum::AtMost { parts: by_period.iter().map(|(&period, &budget)| parts(budget, period)).sum() }
            }
        }
    }

    /// Whether the sum is at most this share, in millionths.
    pub fn fits(self, room_ppm: u32) -> bool {
        let (room, million) = (u128::from(room_ppm), u128::from(MILLION));
        match self {
            Sum::Exact { num, den } => num * million <= room * den,
            Sum::AtMost { parts } => parts * million <= room * ONE,
        }
    }

    /// The sum in millionths of a CPU, rounded up.
    pub fn ppm(self) -> u32 {
        let million = u128::from(MILLION);
        let ppm = match self {
            Sum::Exact { num, den } => (num * million).div_ceil(den),
            Sum::AtMost { parts } => (parts * million).div_ceil(ONE),
        };
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }
}

/// The largest budget of a period that fits beside these reservations into a share in millionths, ns; 0 if it
/// is less than [`BUDGET_MIN_NS`].
pub(crate) fn largest(beside: &[Terms], room_ppm: u32, period_ns: u64) -> u64 {
    let fits = |budget_ns| {
        let more = Terms { budget_ns, period_ns, ..Terms::NOTHING };
        Sum::of(beside.iter().copied().chain([more])).fits(room_ppm)
    };
    let (mut fitting, mut above) = (0, period_ns + 1);
    while above - fitting > 1 {
        let middle = fitting + (above - fitting) / 2;
        if fits(middle) { fitting = middle } else { above = middle }
    }
    if fitting < BUDGET_MIN_NS { 0 } else { fitting }
}

impl Terms {
    pub(crate) const NOTHING: Terms =
        Terms { budget_ns: 0, period_ns: 1, on_exhaustion: crate::OnExhaustion::Wait };
}

/// A share in parts of 2^64, rounded up.
fn parts(budget: u128, period_ns: u64) -> u128 {
    let period = u128::from(period_ns);
    // All budgets of one period together have far less than 64 bits.
    (budget / period) * ONE + ((budget % period) * ONE).div_ceil(period)
}

fn add((num, den): (u128, u128), (more, of): (u128, u128)) -> Option<(u128, u128)> {
    let common = gcd(den, of);
    let whole = den.checked_mul(of / common)?;
    let sum = num.checked_mul(of / common)?.checked_add(more.checked_mul(den / common)?)?;
    let shorter = gcd(sum, whole).max(1);
    Some((sum / shorter, whole / shorter))
}

const fn gcd(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(budget_ns: u64, period_ns: u64) -> Terms {
        Terms { budget_ns, period_ns, ..Terms::NOTHING }
    }

    #[test]
    fn three_times_a_third_is_one() {
        let third = [terms(1, 3), terms(2, 6), terms(700_000, 2_100_000)];
        assert_eq!(Sum::of(third), Sum::Exact { num: 1, den: 1 });
        assert!(Sum::of(third).fits(1_000_000) && !Sum::of(third).fits(999_999));
    }

    #[test]
    fn a_sum_that_128_bits_do_not_hold_is_rounded_up_and_hardly() {
        // Primes below 4 s.
        let periods =
            [3_999_999_979, 3_999_999_959, 3_999_999_949, 3_999_999_943, 3_999_999_937, 3_999_999_901];
        let many: Vec<Terms> = periods.into_iter().map(|period| terms(period / 10, period)).collect();
        let sum = Sum::of(many.iter().copied());
        assert!(matches!(sum, Sum::AtMost { .. }), "{sum:?}");
        assert!(sum.fits(600_000) && !sum.fits(599_999), "{sum:?}");
    }

    #[test]
    fn the_largest_budget_that_fits_fits_and_one_more_ns_does_not() {
        let beside = [terms(1, 7), terms(12_345, 1_234_567)];
        let most = largest(&beside, 900_000, 3_000_017);
        let with = |budget| Sum::of(beside.into_iter().chain([terms(budget, 3_000_017)])).fits(900_000);
        assert!(with(most) && !with(most + 1), "{most}");
        assert_eq!(largest(&[terms(95, 100)], 900_000, 1_000_000), 0);
        assert_eq!(largest(&[], 1_000_000, 1_000_000), 1_000_000);
    }
}
