//! From a record's stamp in a trace.dat to its time: the file's corrections to another machine's clock, its
//! conversion to nanoseconds, and its fixed offset, in this order, as `trace-cmd report` does it.

use std::io;

use crate::input::{Input, Order};

/// The flag of corrections that change evenly from one sample to the next.
const IS_EVEN: u32 = 1;
/// Nanoseconds in the unit of the file's distance to the time of day.
const DATE_UNIT_NS: i128 = 1_000;

/// The conversion of the processor's cycles to nanoseconds: multiplied by `factor`, shifted right by `shift`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    pub(crate) factor: u32,
    pub(crate) shift: u32,
}

/// A measurement of the distance between two machines' clocks. All of it is in units of the trace's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample {
    time: u64,
    offset: i64,
    /// A stamp is multiplied by this and shifted right by `fraction_bits`.
    ratio: u64,
    fraction_bits: u64,
}

/// Corrections of a guest's stamps to the clock of its host, which was recorded beside it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shift {
    is_even: bool,
    /// By CPU, in order of time, no two of one time.
    samples: Vec<Vec<Sample>>,
}

impl Shift {
    /// Reads the option's data: each CPU's samples, and of newer versions also, the samples' fraction
    /// bits. Every count is followed by its samples, so this takes no more memory than the option has bytes.
    pub(crate) fn read(data: &[u8], order: Order) -> io::Result<Shift> {
        let mut input = Input::new(data, order);
        let _other_machine = input.u64()?;
        let is_even = input.u32()? & IS_EVEN != 0;
        let cpus = input.u32()?;
        let mut samples = Vec::new();
        for _ in 0..cpus {
            samples.push(read_samples(&mut input)?);
        }
        if !input.is_at_end() {
            for sample in samples.iter_mut().flatten() {
                sample.fraction_bits = input.u64()?;
            }
        }
        for of_cpu in &mut samples {
            of_cpu.sort_by_key(|sample| sample.time);
            of_cpu.dedup_by_key(|sample| sample.time);
        }
        Ok(Shift { is_even, samples })
    }

    /// Whether a guest's clock runs at another rate than the host's.
    pub(crate) fn is_scaled(&self) -> bool {
        self.samples.iter().flatten().any(|sample| sample.ratio != 1 || sample.fraction_bits != 0)
    }

    /// The stamp on the other machine's clock. That of a CPU without samples stays.
    fn correct(&self, cpu: u16, stamp: u64) -> i128 {
        let stamp_wide = i128::from(stamp);
        let samples = match self.samples.get(usize::from(cpu)).map_or(&[][..], Vec::as_slice) {
            [] => return stamp_wide,
            [only] => return stamp_wide + i128::from(only.offset),
            samples => samples,
        };
        // The last sample ends the last interval, and the first and the last interval have no outer end.
        let before = samples.partition_point(|sample| sample.time <= stamp);
        let at = before.saturating_sub(1).min(samples.len() - 2);
        let (from, to) = (samples[at], samples[at + 1]);
        let mut offset = i128::from(from.offset);
        if self.is_even {
            let length = i128::from(to.time) - i128::from(from.time);
            let change = i128::from(to.offset) - i128::from(from.offset);
            let part = (stamp_wide - i128::from(from.time)).saturating_mul(change);
            offset += part.saturating_add(length / 2) / length;
        }
        let scaled = u128::from(stamp) * u128::from(from.ratio);
        let scaled = u32::try_from(from.fraction_bits).ok().and_then(|bits| scaled.checked_shr(bits));
        i128::try_from(scaled.unwrap_or(0)).unwrap_or(i128::MAX).saturating_add(offset)
    }
}

/// The times, then the offsets, then the ratios of a CPU's samples.
fn read_samples(input: &mut Input<&[u8]>) -> io::Result<Vec<Sample>> {
    let count = input.u32()?;
    let order = input.order();
    let data = input.block(u64::from(count) * 3 * 8, u64::MAX)?;
    let numbers: Vec<u64> = data.chunks_exact(8).map(|bytes| order.number(bytes)).collect();
    let (times, others) = numbers.split_at(count as usize);
    let (offsets, ratios) = others.split_at(count as usize);
    let columns = times.iter().zip(offsets).zip(ratios);
    let sample = |((&time, &offset), &ratio)| Sample { time, offset: offset as i64, ratio, fraction_bits: 0 };
    Ok(columns.map(sample).collect())
}

/// All that is done to a stamp.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times {
    pub(crate) shift: Shift,
    pub(crate) scale: Option<Scale>,
    /// Added to every time: the distance to the time of day, or what the recorder was told to add.
    offset_ns: i128,
}

impl Times {
    /// Adds the number of a text: nanoseconds.
    pub(crate) fn add_offset(&mut self, text: &str) {
        self.offset_ns = self.offset_ns.saturating_add(number(text));
    }

    /// Adds the number of a text: microseconds to the time of day.
    pub(crate) fn add_date(&mut self, text: &str) {
        self.offset_ns = self.offset_ns.saturating_add(number(text) * DATE_UNIT_NS);
    }

    /// The time of a CPU's stamp. What would be before 0 or after the end of all times is there.
    pub(crate) fn time_ns(&self, cpu: u16, stamp: u64) -> u64 {
        let stamp = self.shift.correct(cpu, stamp).clamp(0, i128::from(u64::MAX));
        let time_ns = match self.scale {
            Some(Scale { factor, shift }) => (stamp * i128::from(factor)) >> shift,
            None => stamp,
        };
        time_ns.saturating_add(self.offset_ns).clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// The number that a text begins with, as C's `strtoll` reads it: `0x` before hexadecimal digits. 0 where no
/// number is, or one that 64 bits do not hold.
fn number(text: &str) -> i128 {
    let text = text.trim_start();
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None => (10, text),
    };
    let end = digits.find(|char: char| !char.is_digit(base)).unwrap_or(digits.len());
    sign * i64::from_str_radix(&digits[..end], base).map_or(0, i128::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift(is_even: bool, samples: &[(u64, i64)]) -> Shift {
        let sample = |&(time, offset)| Sample { time, offset, ratio: 1, fraction_bits: 0 };
        Shift { is_even, samples: vec![samples.iter().map(sample).collect()] }
    }

    #[test]
    fn an_offset_holds_from_its_sample_to_the_next() {
        let shift = shift(false, &[(100, 5), (200, -7), (300, 1000)]);
        let corrected = [0, 100, 199, 200, 299, 300, 999].map(|stamp| shift.correct(0, stamp));
        // The last sample ends the last interval; its own offset is never used.
        assert_eq!(corrected, [5, 105, 204, 193, 292, 293, 992]);
        assert_eq!(shift.correct(1, 150), 150, "a CPU without samples");
    }

    #[test]
    fn an_even_offset_changes_with_the_time() {
        let shift = shift(true, &[(100, 0), (200, 50), (300, -50)]);
        let corrected = [60, 100, 150, 200, 250, 300, 310].map(|stamp| shift.correct(0, stamp));
        // trace-cmd rounds a change below 0 up.
        assert_eq!(corrected, [41, 100, 175, 250, 251, 251, 251]);
    }

    #[test]
    fn numbers_at_the_edge_neither_wrap_nor_fail() {
        for is_even in [false, true] {
            let mut shift = shift(is_even, &[(0, i64::MIN), (1, i64::MAX)]);
            shift.samples[0][0].ratio = u64::MAX;
            for bits in [0, 63, 64, 127, 128, u64::MAX] {
                shift.samples[0][0].fraction_bits = bits;
                for stamp in [0, 1, u64::MAX] {
                    let scale = Some(Scale { factor: u32::MAX, shift: 0 });
                    let mut times = Times { shift: shift.clone(), scale, offset_ns: 0 };
                    times.add_date(&i64::MIN.to_string());
                    let first_ns = times.time_ns(0, stamp);
                    times.add_offset("0x7fffffffffffffff");
                    assert!(times.time_ns(0, stamp) >= first_ns);
                }
            }
        }
    }

    #[test]
    fn an_offset_is_read_as_c_reads_it() {
        let texts = ["0x10", " -0X10", "42\n", "+7ns", "x", "", "-", "99999999999999999999"];
        assert_eq!(texts.map(number), [16, -16, 42, 7, 0, 0, 0, 0]);
    }
}
