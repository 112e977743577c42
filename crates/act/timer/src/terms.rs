//! When a timer is due, how late it may fire, and why a timer is refused.

use std::error::Error;
use std::fmt;

/// The overshoot of a soft timer, in ns: no backstop is armed for it.
pub const SOFT: u64 = u64::MAX;

/// When a timer is due, and how late it may fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    pub(crate) deadline_ns: u64,
    pub(crate) overshoot_ns: u64,
    pub(crate) period_ns: Option<u64>,
}

impl Terms {
    /// A timer that may fire up to `overshoot_ns` after its deadline; [`SOFT`] is infinite. A deadline plus
    /// overshoot beyond the range of `u64` is infinite too.
    pub const fn firm(deadline_ns: u64, overshoot_ns: u64) -> Terms {
        Terms { deadline_ns, overshoot_ns, period_ns: None }
    }

    /// A timer with the backstop at its deadline: the overshoot is 0.
    pub const fn hard(deadline_ns: u64) -> Terms {
        Terms::firm(deadline_ns, 0)
    }

    /// A timer that fires at trigger points alone: the overshoot is infinite.
    pub const fn soft(deadline_ns: u64) -> Terms {
        Terms::firm(deadline_ns, SOFT)
    }

    /// The same timer, due again each `period_ns` after its first deadline: at least 1 ns, and no less than
    /// the overshoot unless that is [`SOFT`]. A late expiry does not move the later ones; a period that was
    /// missed fires late and is not left out (section 3.1.2).
    pub const fn every(self, period_ns: u64) -> Terms {
        Terms { period_ns: Some(period_ns), ..self }
    }

    /// The latest time at which the timer may fire, in ns; [`SOFT`] if there is none.
    pub const fn limit_ns(&self) -> u64 {
        self.deadline_ns.saturating_add(self.overshoot_ns)
    }

    /// Whether such a timer can be armed now.
    ///
    /// # Errors
    /// See [`Refused`].
    pub const fn check(&self, now_ns: u64) -> Result<(), Refused> {
        if self.deadline_ns < now_ns {
            return Err(Refused::Past { deadline_ns: self.deadline_ns, now_ns });
        }
        match self.period_ns {
            Some(0) => Err(Refused::NoPeriod),
            Some(period_ns) if self.overshoot_ns != SOFT && self.overshoot_ns > period_ns => {
                Err(Refused::Overshoot { overshoot_ns: self.overshoot_ns, period_ns })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Why a timer is not armed. Its text is one line with the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The deadline lies in the past.
    Past {
        /// The deadline that was asked for.
        deadline_ns: u64,
        /// The time at which it was asked for.
        now_ns: u64,
    },
    /// The period is 0.
    NoPeriod,
    /// An expiry could be later than the next deadline of the same timer.
    Overshoot {
        /// The overshoot that was asked for.
        overshoot_ns: u64,
        /// The period that was asked for.
        period_ns: u64,
    },
    /// The timer of this handle has fired for the last time, or was cancelled.
    Ended,
    /// The queue has as many timers as it can name.
    Full {
        /// How many timers a queue can have.
        most: u32,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Past { deadline_ns, now_ns } => {
                let late_ns = now_ns - deadline_ns;
                write!(f, "a deadline is {now_ns} ns (now) or later, not {deadline_ns} ns: {late_ns} ns ago")
            }
            Refused::NoPeriod => write!(f, "a period is 1 ns or longer, not 0"),
            Refused::Overshoot { overshoot_ns, period_ns } => write!(
                f,
                "an overshoot is 0 to {period_ns} ns (the period) or infinite, not {overshoot_ns} ns"
            ),
            Refused::Ended => write!(f, "the timer has fired for the last time or was cancelled"),
            Refused::Full { most } => write!(f, "a queue has at most {most} timers"),
        }
    }
}

impl Error for Refused {}
