//! Where tick sampling at a rate would have hit, for 64 evenly spaced phases of the tick at once.
//!
//! A tick grid of period `T` shifted by `j T / 64` hits a stay on the CPU once for each of its points in it. The
//! points of all 64 grids together are the multiples of `T / 64`: a stay hits all points between the slots of its
//! start and of its end. So each CPU keeps the slot it is in ([`Grid`]), and each task ([`Hits`]) a difference
//! array over the phases: two additions a stay, none while no slot ends.

/// Phases looked at.
pub(crate) const PHASES: usize = 64;
const PHASE_BITS: u32 = 6;
const NS_PER_S: u64 = 1_000_000_000;

/// The period of a tick rate as the kernel rounds it (`TICK_NSEC`), ns.
pub(crate) const fn period_ns(hz: u32) -> u64 {
    (NS_PER_S + hz as u64 / 2) / hz as u64
}

/// The tick grid of one rate on one CPU, moving forward in time.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    period_ns: u64,
    /// Slots a nanosecond in 2^32 parts, rounded down.
    slots_per_ns: u64,
    /// The latest tick of phase 0.
    tick_ns: u64,
    /// Slots since the grid's origin.
    slot: u64,
    /// When the next slot begins.
    slot_end_ns: u64,
}

impl Grid {
    /// A grid with a tick at every time that is `phase_ns` modulo the period, from `start_ns` on.
    pub(crate) fn new(hz: u32, phase_ns: u64, start_ns: u64) -> Grid {
        let period_ns = period_ns(hz);
        let phase_ns = phase_ns % period_ns;
        let since_tick_ns = (start_ns % period_ns + period_ns - phase_ns) % period_ns;
        let mut grid = Grid {
            period_ns,
            slots_per_ns: ((PHASES as u64) << 32) / period_ns,
            // Before time 0 for the first slots of a clock that starts at 0: start at the tick after instead.
            tick_ns: start_ns.checked_sub(since_tick_ns).unwrap_or(phase_ns),
            slot: 0,
            slot_end_ns: 0,
        };
        grid.slot_end_ns = grid.slot_start_ns(1);
        grid.slot_at(start_ns.max(grid.tick_ns));
        grid
    }

    /// When a slot of the present tick begins.
    fn slot_start_ns(&self, slot: u64) -> u64 {
        self.tick_ns + (slot * self.period_ns).div_ceil(PHASES as u64)
    }

    /// The slot of a time; times must not go backwards (an earlier one gives the present slot).
    #[inline]
    pub(crate) fn slot_at(&mut self, time_ns: u64) -> u64 {
        if time_ns >= self.slot_end_ns {
            self.advance(time_ns);
        }
        self.slot
    }

    fn advance(&mut self, time_ns: u64) {
        let mut since_tick_ns = time_ns - self.tick_ns;
        if since_tick_ns >= self.period_ns {
            let ticks = if since_tick_ns < 2 * self.period_ns { 1 } else { since_tick_ns / self.period_ns };
            self.tick_ns += ticks * self.period_ns;
            self.slot = ((self.slot >> PHASE_BITS) + ticks) << PHASE_BITS;
            since_tick_ns -= ticks * self.period_ns;
        }
        let mut within = (since_tick_ns * self.slots_per_ns) >> 32;
        // The factor is rounded down, so the slot may be one too low.
        if time_ns >= self.slot_start_ns(within + 1) {
            within += 1;
        }
        self.slot = ((self.slot >> PHASE_BITS) << PHASE_BITS) | within;
        self.slot_end_ns = self.slot_start_ns(within + 1);
    }
}

/// Ticks of phase 0 after slot `from` and up to slot `to`: they are the slots that 64 divides.
#[inline]
pub(crate) fn ticks_between(from: u64, to: u64) -> u64 {
    (to >> PHASE_BITS) - (from >> PHASE_BITS)
}

/// How often the ticks of one task's stays hit it, by rate and phase.
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

/// As narrow as the counts allow.
#[derive(Debug, Default)]
enum Steps {
    #[default]
    None,
    Narrow(Box<[i8]>),
    Middle(Box<[i16]>),
    Wide(Box<[i64]>),
}

impl Steps {
    #[inline]
    fn add(&mut self, at: usize, by: i8, len: usize) {
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
        self.add(at, by, len);
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
            let len = rates * PHASES;
            self.steps.add(rate * PHASES + first, 1, len);
            // The step at phase 64 would be for nobody.
            if end != PHASES {
                self.steps.add(rate * PHASES + end % PHASES, -1, len);
            }
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

    /// Whole stays that a tick of phase 0 hit.
    pub(crate) fn hit_at_own(&self, rate: usize) -> u64 {
        self.rates.get(rate).map_or(0, |counts| counts.hit_at_own)
    }
}

/// Whether a stay on the CPU was seen from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whole {
    Yes,
    No,
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
            let mut grid = Grid::new(hz, origin, 1_000_000);
            let mut hits = Hits::default();
            let mut expected = [0; PHASES];
            let (mut time_ns, mut seed) = (1_000_000, 1_u64);
            for _ in 0..5_000 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let start_ns = time_ns + (seed >> 40) % 40_000;
                let end_ns = start_ns + (seed >> 33) % 3_000_000 / (1 + (seed >> 60));
                let (from, to) = (grid.slot_at(start_ns), grid.slot_at(end_ns));
                if to > from {
                    hits.add(0, 1, from, to, Whole::Yes);
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
    fn a_grid_of_a_clock_that_starts_at_zero_begins_at_its_first_tick() {
        let mut grid = Grid::new(100, 4_000_000, 0);
        let before = grid.slot_at(3_999_999);
        assert_eq!(grid.slot_at(4_000_000), before, "the first tick is the grid's origin");
        assert_eq!(grid.slot_at(14_000_000), before + 64);
    }
}
