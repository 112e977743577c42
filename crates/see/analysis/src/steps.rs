//! Quanta by their length and the ticks that hit them, for a picture of billing by sampling (Etsion, Tsafrir,
//! Feitelson 2003, figure 4).
//!
//! A sample is enough for the picture: a task's quanta count from the 16th on. From the 64th on, one in
//! [`ONE_IN`] counts and stands for that many. The choice of this quantum steps by the golden ratio, so that
//! it never follows a period of the task's own.

use std::num::NonZeroU16;

use crate::findings::StepCell;

/// The number of a task's whole quanta at which it gets its table: short-lived tasks need no picture.
const EARNED_AT: u64 = 16;
/// The number of a task's whole quanta at which sampling starts; from the 16th up to it, each counts.
const SAMPLED_FROM: u64 = 64;
/// The number of quanta that a sampled quantum stands for: 2^3.
const ONE_IN: u32 = 1 << ONE_IN_BITS;
const ONE_IN_BITS: u32 = 3;
/// The most tables kept. Each takes 2 KiB at four rates, and at most 3 KiB more for each rate.
const TABLES_MAX: usize = 256;
/// The number of lengths that are kept apart within a factor of two, as a power of two.
const SUB_BITS: u32 = 2;
/// A quantum shorter than 2^10 ns counts as the shortest of the table, a quantum of 2^36 ns (69 s) or more
/// as the longest.
const FIRST_BIT: u32 = 10;
const LAST_BIT: u32 = 36;
const LENGTHS: usize = ((LAST_BIT - FIRST_BIT) << SUB_BITS) as usize;
/// The most cells of one clock rate's table that are kept if ticks hit their quanta. A cell is a range of
/// quantum lengths with a number of ticks; the picture leaves out further cells.
const HIT_CELLS_MAX: usize = 256;

/// The tables of all tasks that earned a table.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    list: Vec<Table>,
}

/// The position of a task's table, from 1; two bytes, so that a task's figures stay in one cache line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place(Option<NonZeroU16>);

/// A quantum in the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledQuantum {
    at: usize,
    length: usize,
    weight: u32,
}

/// One task's quanta.
#[derive(Debug)]
struct Table {
    /// All quanta by length. No tick of any rate hits most of them, so each is counted once here,
    /// not at each rate.
    all: [u32; LENGTHS],
    rates: Box<[Rate]>,
}

/// Quanta that ticks of one rate hit.
#[derive(Clone, Debug)]
struct Rate {
    by_length: [u32; LENGTHS],
    /// Entries of length, ticks and number of quanta; sorted.
    cells: Vec<(u16, u32, u32)>,
}

impl Tables {
    /// Counts a whole quantum, the `whole`th of its task, if it is in the sample; the ticks
    /// that hit it follow.
    #[inline]
    pub(crate) fn count(
        &mut self,
        place: &mut Place,
        whole: u64,
        length_ns: u64,
        rates: usize,
    ) -> Option<SampledQuantum> {
        let weight = weight_of(whole)?;
        if whole == EARNED_AT {
            *place = self.earn(rates);
        }
        let counted = SampledQuantum { at: place.at()?, length: length_of(length_ns), weight };
        let count = &mut self.list[counted.at].all[counted.length];
        *count = count.saturating_add(weight);
        Some(counted)
    }

    #[cold]
    fn earn(&mut self, rates: usize) -> Place {
        if self.list.len() == TABLES_MAX {
            return Place(None);
        }
        let rate = Rate { by_length: [0; LENGTHS], cells: Vec::new() };
        self.list.push(Table { all: [0; LENGTHS], rates: vec![rate; rates].into() });
        Place(NonZeroU16::new(self.list.len() as u16))
    }

    /// Counts that this many ticks of one rate hit the quantum.
    pub(crate) fn hit(&mut self, counted: SampledQuantum, rate: usize, ticks: u64) {
        if ticks > 0 {
            self.list[counted.at].rates[rate].hit(counted, ticks.min(u64::from(u32::MAX)) as u32);
        }
    }

    /// The cells of one rate in order of length, then ticks; `None` if the task earned no table.
    pub(crate) fn cells(&self, place: Place, rate: usize) -> Option<Vec<StepCell>> {
        let table = &self.list[place.at()?];
        let rate = &table.rates[rate];
        let missed = table.all.iter().zip(&rate.by_length).map(|(all, hit)| all - hit).enumerate();
        let missed = missed.filter(|&(_, count)| count > 0).map(|(length, count)| (length as u16, 0, count));
        let mut cells: Vec<(u16, u32, u32)> = missed.chain(rate.cells.iter().copied()).collect();
        cells.sort_unstable();
        let cell = |(length, ticks, count): (u16, u32, u32)| StepCell {
            quantum_ns: middle_of(usize::from(length)),
            ticks,
            count: u64::from(count),
        };
        Some(cells.into_iter().map(cell).collect())
    }
}

impl Place {
    #[inline]
    fn at(self) -> Option<usize> {
        self.0.map(|place| usize::from(place.get()) - 1)
    }
}

impl Rate {
    fn hit(&mut self, counted: SampledQuantum, ticks: u32) {
        let SampledQuantum { length, weight, .. } = counted;
        self.by_length[length] = self.by_length[length].saturating_add(weight);
        let key = (length as u16, ticks);
        match self.cells.binary_search_by_key(&key, |&(length, ticks, _)| (length, ticks)) {
            Ok(at) => self.cells[at].2 = self.cells[at].2.saturating_add(weight),
            Err(at) if self.cells.len() < HIT_CELLS_MAX => self.cells.insert(at, (key.0, ticks, weight)),
            Err(_) => {}
        }
    }
}

/// How many quanta the `whole`th quantum of a task stands for; `None` if it is not in the sample.
#[inline]
fn weight_of(whole: u64) -> Option<u32> {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    if whole < SAMPLED_FROM {
        return (whole >= EARNED_AT).then_some(1);
    }
    (whole.wrapping_mul(GOLDEN) >> (u64::BITS - ONE_IN_BITS) == 0).then_some(ONE_IN)
}

#[inline]
fn length_of(length_ns: u64) -> usize {
    let bounded = length_ns.clamp(1 << FIRST_BIT, (1 << LAST_BIT) - 1);
    let octave = bounded.ilog2();
    let within = (bounded >> (octave - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    (((octave - FIRST_BIT) << SUB_BITS) + within as u32) as usize
}

fn middle_of(length: usize) -> u64 {
    let octave = FIRST_BIT + (length >> SUB_BITS) as u32;
    let quarter = (length & ((1 << SUB_BITS) - 1)) as u64;
    (1 << octave) + ((2 * quarter + 1) << (octave - SUB_BITS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts all quanta as if they came right after the task had earned its table.
    fn filled(quanta: &[(u64, u64)]) -> Vec<StepCell> {
        let mut tables = Tables::default();
        let mut place = tables.earn(1);
        for &(length_ns, ticks) in quanta {
            let counted = tables.count(&mut place, EARNED_AT + 1, length_ns, 1).unwrap();
            tables.hit(counted, 0, ticks);
        }
        tables.cells(place, 0).unwrap()
    }

    #[test]
    fn a_length_is_shown_within_an_eighth() {
        for length_ns in [1_024, 1_500, 4_000, 999_999, 10_000_000, 60_000_000_000] {
            let shown_ns = filled(&[(length_ns, 0)])[0].quantum_ns;
            assert!(shown_ns.abs_diff(length_ns) * 8 <= length_ns, "{length_ns} as {shown_ns}");
        }
    }

    #[test]
    fn quanta_of_like_length_and_ticks_share_a_cell() {
        let cells = filled(&[(2_000_000, 0), (2_010_000, 0), (2_000_000, 1), (12_000_000, 1)]);
        let counts: Vec<(u32, u64)> = cells.iter().map(|cell| (cell.ticks, cell.count)).collect();
        assert_eq!(counts, [(0, 2), (1, 1), (1, 1)]);
    }

    #[test]
    fn a_sample_of_any_period_stands_for_all_quanta() {
        for period in 1..=40 {
            let (mut place, mut tables) = (Place::default(), Tables::default());
            for whole in 1..=100_000 {
                let is_long = whole % period == 0;
                let length_ns = if is_long { 4_000_000 } else { 5_000 };
                if let Some(counted) = tables.count(&mut place, whole, length_ns, 1).filter(|_| is_long) {
                    tables.hit(counted, 0, 1);
                }
            }
            let cells = tables.cells(place, 0).unwrap();
            let count: u64 = cells.iter().filter(|cell| cell.ticks == 1).map(|cell| cell.count).sum();
            let expected = 100_000 / period;
            assert!(count.abs_diff(expected) * 10 <= expected, "{count} of {expected} each {period}th");
        }
    }

    #[test]
    fn the_cells_of_a_rate_are_bounded() {
        let many: Vec<(u64, u64)> = (1..100_000).map(|at| (at * 50_000, at)).collect();
        assert!(filled(&many).len() <= HIT_CELLS_MAX + LENGTHS);
    }

    #[test]
    fn tables_run_out_and_short_lived_tasks_have_none() {
        let (mut tables, mut made) = (Tables::default(), 0);
        for _ in 0..TABLES_MAX + 50 {
            let mut place = Place::default();
            assert!(tables.count(&mut place, EARNED_AT - 1, 5_000, 1).is_none());
            assert!(tables.cells(place, 0).is_none());
            _ = tables.count(&mut place, EARNED_AT, 5_000, 1);
            made += usize::from(tables.cells(place, 0).is_some());
        }
        assert_eq!(made, TABLES_MAX);
    }
}
