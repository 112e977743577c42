//! Measures the cost of interrupts beyond their own time: the same arrays are sorted at different
//! rates of interrupts.
//!
//! This is section 3 of Etsion, Tsafrir and Feitelson 2003. Each iteration fills an array with random numbers
//! and sorts it. The array is half as large as the second-level cache. The same numbers are sorted at each
//! rate in turn, so that only the rate differs.

use std::fs;
use std::hint::black_box;

use spry_sys::clock::monotonic_ns;
use spry_sys::perf::Timer;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::report::{Rate, Sort};
use crate::session::{NEEDED, Session};
use crate::stats::Stats;

/// The interrupts a second that are added to the machine's own interrupts. The other rates are compared with
/// the first rate, 0.
pub const RATES_HZ: [u32; 6] = [0, 100, 1_000, 5_000, 10_000, 20_000];
/// The part of the benchmark's time in which the interrupts' own time is measured.
const EXPIRY_PART: f64 = 0.15;

/// The iterations at one rate, by round.
struct Row {
    rate_hz: u32,
    timer: Option<Timer>,
    took_ns: Vec<Option<f64>>,
}

/// Measures the sorting at all rates.
pub(crate) fn measure(session: &Session<'_>) -> Result<Sort> {
    let array_bytes = session.machine.cache_bytes(2).ok_or(Error::NoCache(2))? / 2;
    let expiry = interrupt::expiry(&session.share(0.0, EXPIRY_PART))?;
    let allowed_hz = allowed_hz();
    let (rates_hz, left_out_hz): (Vec<u32>, Vec<u32>) =
        RATES_HZ.iter().partition(|&&rate_hz| rate_hz <= allowed_hz);
    let mut rows = rates_hz.into_iter().map(row).collect::<Result<Vec<_>>>()?;
    let mut array = vec![0u32; array_bytes / size_of::<u32>()];
    let mut round = 0u64;
    session.share(EXPIRY_PART, 1.0 - EXPIRY_PART).repeat(|| {
        // Each round begins with a different rate.
        let first = round as usize % rows.len();
        let (after, before) = rows.split_at_mut(first);
        for row in before.iter_mut().chain(after) {
            let took_ns = iteration(session, row.timer.as_ref(), &mut array, round)?;
            // The first round is for warming up and does not count.
            if round > 0 {
                row.took_ns.push(took_ns);
            }
        }
        round += 1;
        Ok(())
    })?;
    let base = rows.first().map(|row| row.took_ns.clone()).unwrap_or_default();
    let rates = rows.iter().map(|row| figures(session, row, &base)).collect::<Result<Vec<_>>>()?;
    Ok(Sort { array_bytes, expiry, rates, left_out_hz })
}

fn row(rate_hz: u32) -> Result<Row> {
    let timer = (rate_hz > 0).then(|| Timer::new(1_000_000_000 / u64::from(rate_hz))).transpose();
    Ok(Row { rate_hz, timer: timer.map_err(Error::NoTimer)?, took_ns: Vec::new() })
}

/// Fills and sorts the array once. Returns how long this took, ns; `None` if another task had
/// the CPU meanwhile.
fn iteration(
    session: &Session<'_>,
    timer: Option<&Timer>,
    array: &mut [u32],
    seed: u64,
) -> Result<Option<f64>> {
    timer.map_or(Ok(()), Timer::start).map_err(Error::NoTimer)?;
    let took_ns = session.alone(|| {
        let began_ns = monotonic_ns();
        fill(array, seed);
        // This is a quicksort that changes to a heapsort in bad cases, as introsort does.
        array.sort_unstable();
        black_box(&mut *array);
        (monotonic_ns() - began_ns) as f64
    });
    timer.map_or(Ok(()), Timer::stop).map_err(Error::NoTimer)?;
    Ok(took_ns)
}

/// Fills the array with random numbers, which are the same for the same seed (Marsaglia 2003, Xorshift RNGs).
fn fill(array: &mut [u32], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for number in array {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *number = (state >> 32) as u32;
    }
}

fn figures(session: &Session<'_>, row: &Row, base: &[Option<f64>]) -> Result<Rate> {
    let undisturbed: Vec<f64> = row.took_ns.iter().copied().flatten().collect();
    let set_aside = (row.took_ns.len() - undisturbed.len()) as u64;
    let pairs = row.took_ns.iter().zip(base).filter_map(|(took, base)| Some((*took)? - (*base)?));
    let added = if row.rate_hz == 0 { None } else { Stats::of(&pairs.collect::<Vec<_>>()) };
    let added = added.filter(|added| added.count >= NEEDED);
    Ok(Rate { rate_hz: row.rate_hz, figure: session.figure(&undisturbed, set_aside)?, added })
}

/// The greatest rate that the kernel allows for perf's timers. At higher rates it skips expiries.
fn allowed_hz() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap_or_default();
    text.trim().parse().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_gives_others() {
        let numbers = |seed| {
            let mut array = [0; 1_000];
            fill(&mut array, seed);
            array
        };
        assert_eq!(numbers(0), numbers(0));
        assert_ne!(numbers(1), numbers(2));
        let mut some = numbers(3);
        some.sort_unstable();
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]), "1,000 of 2^32 hardly ever meet");
    }
}
