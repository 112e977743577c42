//! The quanta that a user has set for single classes, beside the quantum of OTHER ([`Tuning`]).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::tuning::{QUANTUM_US_LEAST, QUANTUM_US_MOST, Tuning, TuningError};

/// A class that has its quantum as a knob. OTHER's quantum goes with the tick, and further classes have none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuantumClass {
    /// Processes in use: each has the quantum, whatever its level is.
    Interactive,
    /// Tasks that get only CPU time that no other task needs: each has the quantum.
    Idle,
}

impl QuantumClass {
    /// All such classes.
    pub const ALL: [QuantumClass; 2] = [QuantumClass::Interactive, QuantumClass::Idle];
}

impl fmt::Display for QuantumClass {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            QuantumClass::Interactive => "interactive",
            QuantumClass::Idle => "idle",
        })
    }
}

/// A quantum within the limits, us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct QuantumUs(u32);

impl QuantumUs {
    /// The quantum, us, 50 to 100000.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The quantum, ns.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0 as u64 * 1_000
    }
}

impl fmt::Display for QuantumUs {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a quantum of {} us", self.0)
    }
}

impl TryFrom<u32> for QuantumUs {
    type Error = TuningError;

    fn try_from(us: u32) -> Result<QuantumUs, TuningError> {
        match us {
            QUANTUM_US_LEAST..=QUANTUM_US_MOST => Ok(QuantumUs(us)),
            us => Err(TuningError::Quantum { us }),
        }
    }
}

impl From<QuantumUs> for u32 {
    fn from(quantum: QuantumUs) -> u32 {
        quantum.0
    }
}

/// The quanta of the classes; null where a class has the scheduler's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Quanta {
    /// The quantum of each process in use, us.
    #[serde(default)]
    pub interactive_us: Option<QuantumUs>,
    /// The quantum of each task of IDLE, us.
    #[serde(default)]
    pub idle_us: Option<QuantumUs>,
}

impl Quanta {
    /// The quantum of a class.
    #[must_use]
    pub const fn of(&self, class: QuantumClass) -> Option<QuantumUs> {
        match class {
            QuantumClass::Interactive => self.interactive_us,
            QuantumClass::Idle => self.idle_us,
        }
    }

    /// The same quanta with another quantum of one class.
    #[must_use]
    pub const fn with(mut self, class: QuantumClass, quantum: Option<QuantumUs>) -> Quanta {
        match class {
            QuantumClass::Interactive => self.interactive_us = quantum,
            QuantumClass::Idle => self.idle_us = quantum,
        }
        self
    }
}

/// All knobs of the scheduler in the kernel that a user can set while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Knobs {
    /// The tick, and the quantum of OTHER; `None` if they are the scheduler's own.
    pub tuning: Option<Tuning>,
    /// The quanta of other classes.
    pub quanta: Quanta,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_beyond_the_limits_is_none_in_a_forged_question() {
        let read = |text| serde_json::from_str::<QuantumUs>(text).map(QuantumUs::get).ok();
        assert_eq!(["50", "3000", "100000"].map(read), [Some(50), Some(3_000), Some(100_000)]);
        for text in ["0", "49", "100001", "4294967295", "4294967296", "-1", "1.5", "\"500\"", "null", "{}"] {
            assert_eq!(read(text), None, "{text}");
        }
        let shown = QuantumUs::try_from(3_000).map(|quantum| quantum.to_string());
        assert_eq!(shown.as_deref(), Ok("a quantum of 3000 us"));
        let refused = QuantumUs::try_from(0).expect_err("it is too short").to_string();
        assert_eq!(refused, "a quantum of 0 us cannot be: it is 50 to 100000 us");
    }

    #[test]
    fn one_class_changes_and_the_other_stays() {
        let quantum = QuantumUs::try_from(500).ok();
        let quanta = Quanta::default().with(QuantumClass::Idle, quantum);
        assert_eq!(QuantumClass::ALL.map(|class| quanta.of(class)), [None, quantum]);
        assert_eq!(serde_json::to_string(&quanta).unwrap(), r#"{"interactive_us":null,"idle_us":500}"#);
        assert_eq!(quanta.with(QuantumClass::Idle, None), Quanta::default());
        assert_eq!(serde_json::from_str::<Quanta>("{}").unwrap(), Quanta::default());
    }
}
