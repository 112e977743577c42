//! The wish: the quantum or the tick that is asked for, and their limits.

use std::ops::RangeInclusive;

use crate::error::TuneError;

/// The quanta that can be asked for, us.
pub const QUANTUM_US: RangeInclusive<u64> = 50..=100_000;
/// The ticks that can be asked for, Hz.
pub const TICK_HZ: RangeInclusive<u64> = 100..=20_000;

/// A class of the kernel's that has a quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The fair class: ordinary tasks and batches.
    Fair,
    /// The round-robin class: real-time tasks that take turns.
    RoundRobin,
}

/// Which tasks of the fair class get the quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The command, and the tasks that it starts.
    Command,
    /// All tasks that have no quantum of their own.
    Machine,
}

/// The request of the user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The quantum, us, as [`quantum_us`] reads it.
    pub quantum_us: Option<u64>,
    /// The tick, Hz, as [`tick_hz`] reads it.
    pub tick_hz: Option<u64>,
    /// The class that gets the quantum.
    pub class: Class,
    /// Which tasks of the fair class get it. The round-robin class has one quantum for all its tasks.
    pub reach: Reach,
}

/// Reads a quantum, us.
///
/// # Errors
/// If the text is no whole number of [`QUANTUM_US`].
pub fn quantum_us(text: &str) -> Result<u64, TuneError> {
    within(text, &QUANTUM_US, "--quantum-us", "a quantum is a whole number of microseconds")
}

/// Reads a tick, Hz.
///
/// # Errors
/// If the text is no whole number of [`TICK_HZ`].
pub fn tick_hz(text: &str) -> Result<u64, TuneError> {
    within(text, &TICK_HZ, "--tick-hz", "a tick is a whole number of Hz")
}

fn within(
    text: &str,
    limits: &RangeInclusive<u64>,
    option: &'static str,
    what: &'static str,
) -> Result<u64, TuneError> {
    let number = text.parse().ok().filter(|number| limits.contains(number));
    number.ok_or_else(|| TuneError::Limit {
        option,
        text: text.to_owned(),
        what,
        least: *limits.start(),
        most: *limits.end(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_that_cannot_be_is_one_line_with_the_limits() {
        for text in ["0", "49", "100001", "-1", "1.5", "3ms", "", "99999999999999999999", "x\ny"] {
            let said = quantum_us(text).expect_err("it cannot be").to_string();
            assert!(said.contains("50 to 100000") && said.lines().count() == 1, "{said}");
        }
        for text in ["0", "99", "20001", "50000", "-100", "1e3", "1kHz"] {
            let said = tick_hz(text).expect_err("it cannot be").to_string();
            assert!(said.contains("100 to 20000") && said.lines().count() == 1, "{said}");
        }
    }

    #[test]
    fn the_limits_themselves_can_be() {
        assert_eq!(["50", "100000"].map(|text| quantum_us(text).ok()), [Some(50), Some(100_000)]);
        assert_eq!(["100", "20000"].map(|text| tick_hz(text).ok()), [Some(100), Some(20_000)]);
    }
}
