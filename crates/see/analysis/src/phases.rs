//! The hits of tick sampling at a rate, for 64 evenly spaced phases of the tick at once.
//!
//! A tick grid of period `T` shifted by `j T / 64` hits a stay on the CPU once for each of its points in it.
//! The points of all 64 grids together are the multiples of `T / 64`. A stay hits all points between the
//! slots of its start and of its end ([`Grid`]). So each task ([`Hits`]) keeps a difference array over the
//! phases: two additions a stay, none while no slot ends.

use crate::batch::Whole;

/// The number of phases of the tick.
pub(crate) const PHASES: usize = 64;
const PHASE_BITS: u32 = 6;
const NS_PER_S: u64 = 1_000_000_000;

/// The period of a tick rate as the kernel rounds it (`TICK_NSEC`), ns.
pub(crate) const fn period_ns(hz: u32) -> u64 {
    (NS_PER_S + hz as u64 / 2) / hz as u64
}

/// The tick grid of one rate on one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// The time of a tick of phase 0, ns; an earlier time counts as this time.
    origin_ns: u64,
    period_ns: u64,
    /// 2^64 / `period_ns`, rounded down.
    reciprocal: u64,
}

/// The position of a time on a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// Slots since the grid's origin.
    pub(crate) slot: u64,
    /// The offset in the slot, in units of 1/64 ns; less than `period_ns` units.
    past: u64,
}

/// Nine years, ns: a time that is further from the origin counts as this far.
const SINCE_NS_MAX: u64 = (1 << (64 - PHASE_BITS)) - 1;

impl Grid {
    /// A grid with a tick at every time that is `phase_ns` modulo the period, from `start_ns` on.
    pub(crate) fn new(hz: u32, phase_ns: u64, start_ns: u64) -> Grid {
        let period_ns = period_ns(hz);
        let phase_ns = phase_ns % period_ns;
        let since_tick_ns = (start_ns % period_ns + period_ns - phase_ns) % period_ns;
        Grid {
            // The tick before the start may lie before time 0: the grid then begins at the tick after the
            // start.
            origin_ns: start_ns.checked_sub(since_tick_ns).unwrap_or(phase_ns),
            period_ns,
            reciprocal: u64::MAX / period_ns,
        }
    }

    /// The position of a time on the grid; a time before the grid's origin counts as the origin.
    #[inline]
    pub(crate) fn spot(&self, time_ns: u64) -> Spot {
        self.divide(time_ns.saturating_sub(self.origin_ns).min(SINCE_NS_MAX) << PHASE_BITS)
    }

    /// The slot of the time that is `ns` nanoseconds after `spot`.
    #[inline]
    pub(crate) fn slot_after(&self, spot: Spot, ns: u64) -> u64 {
        let past = spot.past + (ns.min(SINCE_NS_MAX - (1 << 30)) << PHASE_BITS);
        if past < self.period_ns { spot.slot } else { spot.slot + self.divide(past).slot }
    }

    #[inline]
    fn divide(&self, parts: u64) -> Spot {
        let slot = ((u128::from(parts) * u128::from(self.reciprocal)) >> 64) as u64;
        let past = parts - slot * self.period_ns;
        // The reciprocal is rounded down, so the slot may be one too low.
        if past < self.period_ns {
            Spot { slot, past }
        } else {
            Spot { slot: slot + 1, past: past - self.period_ns }
        }
    }
}

/// Ticks of phase 0 after slot `from` and up to slot `to`: they are the slots that 64 divides.
#[inline]
pub(crate) fn ticks_between(from: u64, to: u64) -> u64 {
    (to >> PHASE_BITS) - (from >> PHASE_BITS)
}

/// The number of hits of ticks on one task's stays on CPUs, by rate and phase.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// Hits at every phase and stays hit at phase 0, by rate.
    rates: Box<[Rate]>,
    /// Differences between neighbouring phases, by rate and phase.
    steps: Steps,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    everywhere: u64,
    hit_at_own: u64,
}

/// The differences, in numbers as narrow as the counts allow.
#[derive(Debug, Default)]
enum Steps {
    #[default]
    None,
    Narrow(Box<[i8]>),
    Middle(Box<[i16]>),
    Wide(Box<[i64]>),
}

impl Steps {
    /// Adds 1 at `up` and subtracts 1 at `down`.
    #[inline]
    fn add(&mut self, up: usize, down: Option<usize>, len: usize) {
        if let Steps::Middle(steps) = self {
            let down_to = down.map_or(0, |down| steps[down]);
            if steps[up] < i16::MAX && down_to > i16::MIN {
                steps[up] += 1;
                if let Some(down) = down {
                    steps[down] -= 1;
                }
                return;
            }
        }
        self.add_one(up, 1, len);
        if let Some(down) = down {
            self.add_one(down, -1, len);
        }
    }

    fn add_one(&mut self, at: usize, by: i8, len: usize) {
        match self {
            Steps::Wide(steps) => return steps[at] += i64::from(by),
            Steps::Middle(steps) => {
                if let Some(sum) = steps[at].checked_add(i16::from(by)) {
                    return steps[at] = sum;
                }
            }
            Steps::Narrow(steps) => {
                if let Some(sum) = steps[at].checked_add(by) {
                    return steps[at] = sum;
                }
            }
            Steps::None => {}
        }
        self.widen(len);
        self.add_one(at, by, len);
    }

    #[cold]
    fn widen(&mut self, len: usize) {
        *self = match self {
            Steps::None => Steps::Narrow(vec![0; len].into()),
            Steps::Narrow(steps) => Steps::Middle(steps.iter().map(|&step| i16::from(step)).collect()),
            Steps::Middle(steps) => Steps::Wide(steps.iter().map(|&step| i64::from(step)).collect()),
            Steps::Wide(_) => unreachable!("64 bits hold any count of stays"),
        }
    }

    fn get(&self, at: usize) -> i64 {
        match self {
            Steps::None => 0,
            Steps::Narrow(steps) => i64::from(steps[at]),
            Steps::Middle(steps) => i64::from(steps[at]),
            Steps::Wide(steps) => steps[at],
        }
    }
}

impl Hits {
    /// Counts a stay from slot `from` to slot `to` (greater) at a rate. A point at the very end hits.
    #[inline]
    pub(crate) fn add(&mut self, rate: usize, rates: usize, from: u64, to: u64, is_whole: Whole) {
        if self.rates.is_empty() {
            self.rates = vec![Rate::default(); rates].into();
        }
        let points = to - from;
        let counts = &mut self.rates[rate];
        counts.everywhere += points >> PHASE_BITS;
        if is_whole == Whole::Yes && ticks_between(from, to) > 0 {
            counts.hit_at_own += 1;
        }
        let rest = (points as usize) % PHASES;
        if rest > 0 {
            let first = (from + 1) as usize % PHASES;
            let end = first + rest;
            if end > PHASES {
                counts.everywhere += 1;
            }
            // A step at phase 64 would change nothing: there is no such phase.
            let down = (end != PHASES).then_some(rate * PHASES + end % PHASES);
            self.steps.add(rate * PHASES + first, down, rates * PHASES);
        }
    }

    /// Hits at each phase; phase 0 first.
    pub(crate) fn by_phase(&self, rate: usize) -> [u64; PHASES] {
        let mut hits = self.rates.get(rate).map_or(0, |counts| counts.everywhere) as i64;
        std::array::from_fn(|phase| {
            hits += self.steps.get(rate * PHASES + phase);
            hits as u64
        })
    }

    /// How many whole stays a tick of phase 0 hit.
    pub(crate) fn hit_at_own(&self, rate: usize) -> u64 {
        self.rates.get(rate).map_or(0, |counts| counts.hit_at_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of phase `j` in `(start, end]`, counted one by one.
    fn by_hand(period_ns: u64, origin_ns: u64, phase: u64, start_ns: u64, end_ns: u64) -> u64 {
        let shift_ns = origin_ns + (phase * period_ns).div_ceil(PHASES as u64);
        let ticks_to = |time_ns: u64| (time_ns + 100 * period_ns - shift_ns) / period_ns;
        ticks_to(end_ns) - ticks_to(start_ns)
    }

    #[test]
    fn hits_equal_those_counted_one_by_one_at_every_phase() {
        for hz in [100, 250, 300, 1_000, 20_000] {
            let (period, origin) = (period_ns(hz), 777_777 % period_ns(hz));
            let grid = Grid::new(hz, origin, 1_000_000);
            let mut hits = Hits::default();
            let mut expected = [0; PHASES];
            let (mut time_ns, mut seed) = (1_000_000, 1_u64);
            for _ in 0..5_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let start_ns = time_ns + (seed >> 40) % 40_000;
                let end_ns = start_ns + (seed >> 33) % 3_000_000 / (1 + (seed >> 60));
                let spot = grid.spot(start_ns);
                let to = grid.slot_after(spot, end_ns - start_ns);
                assert_eq!(to, grid.spot(end_ns).slot);
                if to > spot.slot {
                    hits.add(0, 1, spot.slot, to, Whole::Yes);
                }
                for (phase, expected) in expected.iter_mut().enumerate() {
                    *expected += by_hand(period, origin, phase as u64, start_ns, end_ns);
                }
                time_ns = end_ns;
            }
            assert_eq!(hits.by_phase(0), expected, "{hz} Hz");
        }
    }

    #[test]
    fn a_grid_begins_at_the_first_tick_of_a_clock_from_zero() {
        let grid = Grid::new(100, 4_000_000, 0);
        let before = grid.spot(3_999_999).slot;
        assert_eq!(grid.spot(4_000_000).slot, before, "the first tick is the grid's origin");
        assert_eq!(grid.spot(14_000_000).slot, before + 64);
    }

    #[test]
    fn a_slot_begins_at_its_first_nanosecond_however_late() {
        for hz in [1, 7, 100, 300, 1_024, 999_983, 1_000_000] {
            let (grid, period_ns) = (Grid::new(hz, 0, 0), period_ns(hz));
            for ticks in [0, 1, 1_000_003, (1 << 57) / period_ns] {
                for slot in 1..=PHASES as u64 {
                    let first_ns = ticks * period_ns + (slot * period_ns).div_ceil(PHASES as u64);
                    assert_eq!(grid.spot(first_ns).slot, ticks * PHASES as u64 + slot, "{hz} Hz, {first_ns}");
                    assert_eq!(grid.spot(first_ns - 1).slot, ticks * PHASES as u64 + slot - 1);
                }
            }
        }
    }

    #[test]
    fn times_that_no_clock_shows_are_no_harm() {
        let grid = Grid::new(1, 999_999_999, u64::MAX - 5);
        assert!(grid.slot_after(grid.spot(0), u64::MAX) >= grid.spot(u64::MAX).slot);
    }
}
