//! The knobs of tick and quantum: their limits, and how they fit together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The slowest tick, Hz.
pub const TICK_HZ_LEAST: u32 = 100;
/// The fastest tick, Hz.
pub const TICK_HZ_MOST: u32 = 20_000;
/// The shortest quantum, us.
pub const QUANTUM_US_LEAST: u32 = 50;
/// The longest quantum, us.
pub const QUANTUM_US_MOST: u32 = 100_000;

/// The scheduler's own quantum, us.
const QUANTUM_US_OWN: u32 = 3_000;

/// A tick and a quantum for tasks that are not in use, both within their limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "UncheckedTuning")]
pub struct Tuning {
    tick_hz: u32,
    quantum_us: u32,
}

/// The values before they are checked: the tick alone, the quantum alone, or both.
#[derive(Clone, Copy, Debug, Deserialize)]
struct UncheckedTuning {
    #[serde(default)]
    tick_hz: Option<u32>,
    #[serde(default)]
    quantum_us: Option<u32>,
}

/// Why a tick and a quantum are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TuningError {
    /// Neither was given.
    #[error("a tick or a quantum is wanted")]
    Nothing,
    /// The tick is too slow or too fast.
    #[error("a tick of {hz} Hz cannot be: it is {TICK_HZ_LEAST} to {TICK_HZ_MOST} Hz")]
    Tick {
        /// The tick that was asked for, Hz.
        hz: u32,
    },
    /// The quantum is too short or too long.
    #[error("a quantum of {us} us cannot be: it is {QUANTUM_US_LEAST} to {QUANTUM_US_MOST} us")]
    Quantum {
        /// The quantum that was asked for, us.
        us: u32,
    },
    /// The quantum is shorter than the time between two ticks.
    #[error("a quantum of {us} us would end between two ticks of {hz} Hz: ask for a faster tick")]
    Between {
        /// The quantum that was asked for, us.
        us: u32,
        /// The tick that was asked for, Hz.
        hz: u32,
    },
}

impl Tuning {
    /// A tick and a quantum. Without a tick there is one at the end of each quantum; without a quantum it is
    /// the scheduler's own, 3 ms, or the time between two ticks if that is longer.
    ///
    /// # Errors
    /// If one of them is beyond its limits, if the quantum is shorter than the time between two ticks, or if
    /// neither is given.
    pub fn new(tick_hz: Option<u32>, quantum_us: Option<u32>) -> Result<Tuning, TuningError> {
        if let Some(hz) = tick_hz.filter(|hz| !(TICK_HZ_LEAST..=TICK_HZ_MOST).contains(hz)) {
            return Err(TuningError::Tick { hz });
        }
        if let Some(us) = quantum_us.filter(|us| !(QUANTUM_US_LEAST..=QUANTUM_US_MOST).contains(us)) {
            return Err(TuningError::Quantum { us });
        }
        let (tick_hz, quantum_us) = match (tick_hz, quantum_us) {
            (None, None) => return Err(TuningError::Nothing),
            (Some(hz), None) => (hz, QUANTUM_US_OWN.max(1_000_000 / hz)),
            (None, Some(us)) => ((1_000_000 / us).max(TICK_HZ_LEAST), us),
            (Some(hz), Some(us)) => (hz, us),
        };
        if u64::from(quantum_us) * u64::from(tick_hz) < 1_000_000 - u64::from(tick_hz) {
            return Err(TuningError::Between { us: quantum_us, hz: tick_hz });
        }
        Ok(Tuning { tick_hz, quantum_us })
    }

    /// The rate of the tick, Hz, 100 to 20000.
    #[must_use]
    pub const fn tick_hz(self) -> u32 {
        self.tick_hz
    }

    /// The quantum, us, 50 to 100000.
    #[must_use]
    pub const fn quantum_us(self) -> u32 {
        self.quantum_us
    }

    /// The time between two ticks, ns.
    #[must_use]
    pub const fn tick_ns(self) -> u64 {
        1_000_000_000 / self.tick_hz as u64
    }

    /// The quantum, ns.
    #[must_use]
    pub const fn quantum_ns(self) -> u64 {
        self.quantum_us as u64 * 1_000
    }
}

impl TryFrom<UncheckedTuning> for Tuning {
    type Error = TuningError;

    fn try_from(asked: UncheckedTuning) -> Result<Tuning, TuningError> {
        Tuning::new(asked.tick_hz, asked.quantum_us)
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a tick of {} Hz, a quantum of {} us", self.tick_hz, self.quantum_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(tuning: Tuning) -> (u32, u32) {
        (tuning.tick_hz(), tuning.quantum_us())
    }

    #[test]
    fn a_tick_or_a_quantum_alone_gives_the_other() {
        assert_eq!(Tuning::new(Some(20_000), None).map(both), Ok((20_000, 3_000)));
        assert_eq!(Tuning::new(None, Some(100)).map(both), Ok((10_000, 100)));
        assert_eq!(Tuning::new(None, Some(60_000)).map(both), Ok((100, 60_000)));
        assert_eq!(Tuning::new(Some(20_000), Some(100)).map(both), Ok((20_000, 100)));
        assert_eq!(Tuning::new(Some(100), None).map(both), Ok((100, 10_000)));
        assert_eq!(Tuning::new(Some(300), None).map(both), Ok((300, 3333)));
    }

    #[test]
    fn a_knob_that_cannot_be_is_refused_with_its_limits() {
        let why = |hz, us| Tuning::new(hz, us).expect_err("it cannot be").to_string();
        assert_eq!(why(Some(0), None), "a tick of 0 Hz cannot be: it is 100 to 20000 Hz");
        assert_eq!(why(Some(50_000), Some(100)), "a tick of 50000 Hz cannot be: it is 100 to 20000 Hz");
        assert_eq!(why(None, Some(49)), "a quantum of 49 us cannot be: it is 50 to 100000 us");
        assert!(why(Some(100), Some(100)).contains("between two ticks of 100 Hz"));
        assert_eq!(why(None, None), "a tick or a quantum is wanted");
    }

    #[test]
    fn a_forged_question_has_no_knob_beyond_its_limits() {
        let read = |text| serde_json::from_str::<Tuning>(text).map(both);
        assert_eq!(read(r#"{"tick_hz":1000}"#).unwrap(), (1000, 3000));
        assert_eq!(read(r#"{"quantum_us":100,"tick_hz":20000}"#).unwrap(), (20_000, 100));
        for text in ["{}", r#"{"tick_hz":4294967295}"#, r#"{"quantum_us":1}"#, r#"{"tick_hz":-1}"#] {
            assert!(read(text).is_err(), "{text}");
        }
        let again = serde_json::to_string(&Tuning::new(Some(1000), None).unwrap()).unwrap();
        assert_eq!(again, r#"{"tick_hz":1000,"quantum_us":3000}"#);
    }
}
