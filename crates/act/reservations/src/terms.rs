//! The terms of a reservation: the budget, the period, the threads that it covers, and the limits.

use serde::{Deserialize, Serialize};

use crate::ReservationError;

/// The shortest period, ns.
pub const PERIOD_MIN_NS: u64 = 100_000;
/// The longest period, ns.
pub const PERIOD_MAX_NS: u64 = 4_000_000_000;
/// The smallest budget, ns. A smaller budget is used up before its task has run.
pub const BUDGET_MIN_NS: u64 = 5_000;

/// Which threads a reservation covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Covers {
    /// A single thread, which has the budget alone.
    Thread {
        /// The number of the thread.
        tid: u32,
    },
    /// All threads of a process, which share one budget.
    Group {
        /// The number of the process.
        tgid: u32,
    },
}

impl Covers {
    /// The number of the thread, or of the process.
    pub const fn number(self) -> u32 {
        match self {
            Covers::Thread { tid } => tid,
            Covers::Group { tgid } => tgid,
        }
    }
}

/// What a task does from when its budget is used up until the period ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExhaustion {
    /// The task waits for the next period.
    #[default]
    Wait,
    /// The task goes on as a task without a reservation until the next period.
    Demote,
}

/// How much CPU time a reservation gives, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The CPU time in each period, ns.
    pub budget_ns: u64,
    /// The length of a period, ns; the end of a period is the deadline of its budget.
    pub period_ns: u64,
    /// What a task does when its budget is used up.
    #[serde(default)]
    pub on_exhaustion: OnExhaustion,
}

impl Terms {
    /// Checks the limits that hold for every reservation.
    ///
    /// # Errors
    /// The limit that the terms exceed.
    pub const fn check(&self) -> Result<(), ReservationError> {
        let Terms { budget_ns, period_ns, .. } = *self;
        if period_ns < PERIOD_MIN_NS || period_ns > PERIOD_MAX_NS {
            return Err(ReservationError::Period { period_ns });
        }
        if budget_ns < BUDGET_MIN_NS || budget_ns > period_ns {
            return Err(ReservationError::Budget { budget_ns, period_ns });
        }
        Ok(())
    }
}

/// A reservation that was admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// The number by which the reservation is known while it lasts.
    pub slot: u32,
    /// The CPU on which the time is reserved.
    pub cpu: u32,
    /// How much CPU time the reservation gives, and how often.
    pub terms: Terms,
    /// The threads for which time is reserved.
    pub covers: Covers,
}

/// A time in us, without rounding: `3276.8us`.
pub fn exact_us(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / 1_000, time_ns % 1_000);
    if rest == 0 {
        return format!("{whole}us");
    }
    let digits = format!("{rest:03}");
    format!("{whole}.{}us", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_us_is_not_rounded() {
        let texts = [0, 1, 10, 100, 1_000, 3_276_800, 102_400, 4_000_000_000].map(exact_us);
        let expected = ["0us", "0.001us", "0.01us", "0.1us", "1us", "3276.8us", "102.4us", "4000000us"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn terms_beyond_a_limit_are_refused() {
        let check = |budget_ns, period_ns| {
            Terms { budget_ns, period_ns, on_exhaustion: OnExhaustion::Wait }.check().is_ok()
        };
        assert!(check(BUDGET_MIN_NS, PERIOD_MIN_NS) && check(PERIOD_MAX_NS, PERIOD_MAX_NS));
        assert!(!check(0, 1_000_000) && !check(1_000_001, 1_000_000) && !check(BUDGET_MIN_NS - 1, 1_000_000));
        let budget_ns = BUDGET_MIN_NS;
        assert!(!check(budget_ns, PERIOD_MIN_NS - 1) && !check(budget_ns, PERIOD_MAX_NS + 1) && !check(0, 0));
    }

    #[test]
    fn terms_are_written_in_words() {
        let terms = Terms { budget_ns: 5, period_ns: 7, on_exhaustion: OnExhaustion::Demote };
        let text = serde_json::to_string(&(terms, Covers::Group { tgid: 9 })).unwrap();
        let expected = r#"[{"budget_ns":5,"period_ns":7,"on_exhaustion":"demote"},{"group":{"tgid":9}}]"#;
        assert_eq!(text, expected);
    }
}
