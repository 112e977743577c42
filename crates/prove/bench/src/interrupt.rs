//! Measures the cost of a timer interrupt: the time for which it stops a loop that only reads the clock.

use spry_sys::clock::monotonic_ns;
use spry_sys::perf::Timer;

use crate::clock;
use crate::error::{Error, Result};
use crate::report::{Figure, Interrupt};
use crate::session::{NEEDED, Session};

/// How long the loop spins at once, ns. It is short, so that other programs often do not run in this time.
const SPIN_NS: u64 = 2_000_000;
/// A gap is a time between two readings of the clock that is longer than this many times the usual time.
const GAP_STEPS: u64 = 8;
/// The period of the timer in the measurement of bare timer interrupts, ns: 5000 Hz.
const EXPIRY_NS: u64 = 200_000;
/// An interrupt is sought within this time after it was due, ns. The machine and its hypervisor delay it. The
/// longest gap that begins in this window is taken as the interrupt.
const WINDOW_NS: u64 = 40_000;
/// The place of the window within the period is exact to this time, ns.
const PLACE_NS: u64 = 10_000;
/// The tick's window must have more gaps than any other window. The difference must be this many standard
/// deviations of the number that chance puts there, and this many gaps more.
const CONTRAST: f64 = 5.0;

/// A time in which the loop did not run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Gap {
    began_ns: u64,
    length_ns: u64,
}

/// The loop that reads the clock.
struct Spinner {
    step_ns: u64,
    gaps: Vec<Gap>,
}

impl Spinner {
    fn new() -> Spinner {
        Spinner { step_ns: clock::step_ns().max(1), gaps: Vec::with_capacity((SPIN_NS / 1_000) as usize) }
    }

    /// Runs the loop once. Returns the gaps of this run only. The length of a gap is the time that exceeds
    /// the usual step.
    fn spin(&mut self) -> &[Gap] {
        self.gaps.clear();
        let limit_ns = GAP_STEPS * self.step_ns;
        let began_ns = monotonic_ns();
        let mut before_ns = began_ns;
        while before_ns < began_ns + SPIN_NS {
            let now_ns = monotonic_ns();
            // If the memory for gaps is full, further gaps are left out. That happens only if the loop hardly
            // runs at all.
            if now_ns - before_ns > limit_ns && self.gaps.len() < self.gaps.capacity() {
                self.gaps.push(Gap { began_ns: before_ns, length_ns: now_ns - before_ns - self.step_ns });
            }
            before_ns = now_ns;
        }
        &self.gaps
    }
}

/// Measures the tick: the interrupts that come with the period of the coarse clock.
pub(crate) fn tick(session: &Session<'_>) -> Result<Interrupt> {
    let period_ns = spry_sys::clock::tick_ns();
    let mut spinner = Spinner::new();
    let (mut gaps, mut set_aside, mut spins) = (Vec::new(), 0, 0);
    session.repeat(|| {
        spins += 1;
        match session.alone(|| spinner.spin().to_vec()) {
            Some(found) => gaps.extend(found),
            None => set_aside += 1,
        }
        Ok(())
    })?;
    let lengths = match phase(&gaps, period_ns) {
        Some(phase_ns) => longest(&gaps, phase_ns, period_ns, WINDOW_NS),
        // Other programs often begin to run at a tick. If there are many other programs, only few ticks are
        // undisturbed.
        None if set_aside as usize * 4 > spins || gaps.len() < NEEDED => Vec::new(),
        None => return Err(Error::NoTick { cpu: session.cpu }),
    };
    Ok(Interrupt { tick_hz: 1e9 / period_ns as f64, figure: session.figure(&lengths, set_aside)? })
}

/// Measures the expiry of a timer that has no other effect than its interrupt.
pub(crate) fn expiry(session: &Session<'_>) -> Result<Figure> {
    let mut spinner = Spinner::new();
    let (mut lengths, mut set_aside) = (Vec::new(), 0);
    session.repeat(|| {
        let timer = Timer::new(EXPIRY_NS).map_err(Error::NoTimer)?;
        let spun = session.alone(|| {
            let before_ns = monotonic_ns();
            let started = timer.start();
            let after_ns = monotonic_ns();
            // The timer started between the two readings of the clock. Its interrupts come later, because the
            // machine delays them.
            started.map(|()| (before_ns, after_ns - before_ns, spinner.spin().to_vec()))
        });
        match spun {
            Some(Ok((start_ns, unsure_ns, gaps))) => {
                lengths.extend(longest(&gaps, start_ns, EXPIRY_NS, WINDOW_NS + unsure_ns));
            }
            Some(Err(error)) => return Err(Error::NoTimer(error)),
            None => set_aside += 1,
        }
        Ok(())
    })?;
    session.figure(&lengths, set_aside)
}

/// The place within the period at which the window with the most gaps begins, ns. `None` if that window does
/// not have clearly more gaps than the others.
fn phase(gaps: &[Gap], period_ns: u64) -> Option<u64> {
    let places = (period_ns / PLACE_NS).max(1) as usize;
    let mut counts = vec![0usize; places];
    for gap in gaps {
        counts[((gap.began_ns % period_ns / PLACE_NS) as usize).min(places - 1)] += 1;
    }
    let width = (WINDOW_NS / PLACE_NS) as usize;
    let within = |first: usize| (first..first + width).map(|place| counts[place % places]).sum::<usize>();
    let most = (0..places).map(within).max()?;
    let by_chance = (gaps.len() * width) as f64 / places as f64;
    if (most as f64) < by_chance + CONTRAST * (by_chance.sqrt() + 1.0) {
        return None;
    }
    // Of the places with the most gaps, the middle place is taken.
    let best: Vec<usize> = (0..places).filter(|&first| within(first) == most).collect();
    Some(best[best.len() / 2] as u64 * PLACE_NS)
}

/// The length of the longest gap that begins in each period's window, ns.
fn longest(gaps: &[Gap], phase_ns: u64, period_ns: u64, window_ns: u64) -> Vec<f64> {
    let mut longest: Vec<(u64, u64)> = Vec::new();
    for gap in gaps {
        // A gap's time stamp is later than the window's first place by any number of periods.
        let Some(since_ns) = gap.began_ns.checked_sub(phase_ns) else { continue };
        let (period, within_ns) = (since_ns / period_ns, since_ns % period_ns);
        if within_ns >= window_ns {
            continue;
        }
        match longest.last_mut().filter(|(last, _)| *last == period) {
            Some((_, length_ns)) => *length_ns = gap.length_ns.max(*length_ns),
            None => longest.push((period, gap.length_ns)),
        }
    }
    longest.into_iter().map(|(_, length_ns)| length_ns as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes gaps: a tick every 4 ms at `offset_ns`, up to 20 us late, each followed by a short gap; and
    /// other gaps at any place.
    fn gaps(offset_ns: u64) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for tick in 1..=500u64 {
            let began_ns = tick * 4_000_000 + offset_ns + tick * 7_919 % 20_000;
            gaps.push(Gap { began_ns, length_ns: 2_000 + tick % 3 });
            gaps.push(Gap { began_ns: began_ns + 5_000, length_ns: 300 });
            gaps.push(Gap { began_ns: began_ns + 200_000 + tick * 104_729 % 3_600_000, length_ns: 900 });
        }
        gaps
    }

    #[test]
    fn the_tick_is_found_at_every_phase_beside_other_gaps() {
        for offset_ns in [0, 1_234_567, 3_990_000] {
            let gaps = gaps(offset_ns);
            let phase_ns = phase(&gaps, 4_000_000).unwrap();
            let lengths = longest(&gaps, phase_ns, 4_000_000, WINDOW_NS);
            assert!((499..=500).contains(&lengths.len()), "{offset_ns}: {}", lengths.len());
            assert!(lengths.iter().all(|&ns| (2_000.0..=2_002.0).contains(&ns)), "{offset_ns}");
        }
    }

    #[test]
    fn gaps_anywhere_are_no_tick() {
        let anywhere: Vec<Gap> = (1..2_000u64)
            .map(|n| Gap { began_ns: n * 4_000_000 + n * 7_919_317 % 4_000_000, length_ns: 1_000 })
            .collect();
        assert_eq!(phase(&anywhere, 4_000_000), None);
        assert_eq!(phase(&[], 4_000_000), None);
    }
}
