//! Why a reservation is refused, in one line for the user.

use crate::share::MILLION;
use crate::terms::{BUDGET_MIN_NS, PERIOD_MAX_NS, PERIOD_MIN_NS, exact_us};

/// Why a reservation is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReservationError {
    /// The budget is too small, or longer than the period.
    #[error(
        "a budget of {} in a period of {} cannot be: it is at least {} and at most the period",
        exact_us(*.budget_ns), exact_us(*.period_ns), exact_us(BUDGET_MIN_NS)
    )]
    Budget {
        /// The budget that was asked for, ns.
        budget_ns: u64,
        /// Its period, ns.
        period_ns: u64,
    },
    /// The period is too short or too long.
    #[error(
        "a period of {} cannot be: it is {} to {}",
        exact_us(*.period_ns), exact_us(PERIOD_MIN_NS), exact_us(PERIOD_MAX_NS)
    )]
    Period {
        /// The period that was asked for, ns.
        period_ns: u64,
    },
    /// The task may run on no CPU on which time can be reserved.
    #[error("the task may run on no CPU on which time can be reserved: widen its affinity (`taskset`)")]
    NoCpu,
    /// The task may not run on the CPU that was asked for.
    #[error("the task may not run on CPU {cpu}, or no time can be reserved there")]
    NotThere {
        /// The CPU that was asked for.
        cpu: u32,
    },
    /// Too little of the share that may be reserved is left.
    #[error(
        "{}: {}", limit.words(*.reserved_ppm, *.room_ppm), fitting(*.fits_ns, *.period_ns)
    )]
    Full {
        /// The limit that the reservation would exceed.
        limit: Limit,
        /// The share that is reserved already, millionths of a CPU.
        reserved_ppm: u32,
        /// The share that may be reserved, millionths of a CPU.
        room_ppm: u32,
        /// The largest budget that fits, ns; 0 if none does.
        fits_ns: u64,
        /// The period that was asked for, ns.
        period_ns: u64,
    },
    /// The user has too many reservations.
    #[error("you have {most} reservations, and may have no more (root may): release one")]
    UserCount {
        /// How many the user may have.
        most: u32,
    },
    /// There are too many reservations.
    #[error("there are {most} reservations, and there can be no more: release one")]
    Slots {
        /// How many there can be.
        most: u32,
    },
    /// The task has a reservation already.
    #[error("the task has a reservation already, in slot {slot}: change or release that one")]
    Covered {
        /// The slot of the reservation.
        slot: u32,
    },
    /// There is no such reservation.
    #[error("there is no reservation in slot {slot} (see `spry reservations`)")]
    NoSlot {
        /// The slot that was named.
        slot: u32,
    },
}

/// A limit of the shares that may be reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The share of this CPU that may be reserved. Of all CPUs where the task may run, it has the most room.
    Cpu(u32),
    /// The share of this CPU that users without privileges may reserve. Of all CPUs where the task may run,
    /// it has the most room for them.
    UsersOfCpu(u32),
    /// The share that one user without privileges may reserve, on all CPUs together.
    User,
}

impl Limit {
    /// The CPU of the limit; `None` if the limit is not one CPU's.
    pub const fn cpu(self) -> Option<u32> {
        match self {
            Limit::Cpu(cpu) | Limit::UsersOfCpu(cpu) => Some(cpu),
            Limit::User => None,
        }
    }

    /// The reserved share and the limit, in words for the user.
    fn words(self, reserved_ppm: u32, room_ppm: u32) -> String {
        let (reserved, room) = (percent(reserved_ppm), percent(room_ppm));
        match self {
            Limit::Cpu(cpu) => {
                let left = percent(room_ppm.saturating_sub(reserved_ppm));
                format!(
                    "CPU {cpu} has {reserved} reserved of {room} and {left} left, the most of all CPUs where \
                     the task may run"
                )
            }
            Limit::UsersOfCpu(cpu) => {
                format!(
                    "users other than root have {reserved} of CPU {cpu} reserved and may have {room} of each"
                )
            }
            Limit::User => {
                format!(
                    "you have {reserved} of a CPU reserved and may have {room} of one together (root more)"
                )
            }
        }
    }
}

/// A share in percent, with at most two decimal places.
fn percent(ppm: u32) -> String {
    let hundredths = u64::from(ppm) * 10_000 / u64::from(MILLION);
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match rest {
        0 => format!("{whole} %"),
        _ => format!("{} %", format!("{whole}.{rest:02}").trim_end_matches('0')),
    }
}

fn fitting(fits_ns: u64, period_ns: u64) -> String {
    match fits_ns {
        0 => "nothing more fits".to_owned(),
        _ => format!("at most {} of {} would fit", exact_us(fits_ns), exact_us(period_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_that_says_what_would_fit() {
        let full = ReservationError::Full {
            limit: Limit::Cpu(1),
            reserved_ppm: 850_000,
            room_ppm: 900_000,
            fits_ns: 409_600,
            period_ns: 8_192_000,
        };
        assert_eq!(
            full.to_string(),
            "CPU 1 has 85 % reserved of 90 % and 5 % left, the most of all CPUs where the task may run: at most 409.6us of 8192us would fit"
        );
        let budget = ReservationError::Budget { budget_ns: 0, period_ns: 500_000 }.to_string();
        assert!(budget.contains("at least 5us and at most the period"), "{budget}");
        let period = ReservationError::Period { period_ns: 1_500 }.to_string();
        assert_eq!(period, "a period of 1.5us cannot be: it is 100us to 4000000us");
        let none_left = |limit| {
            ReservationError::Full {
                limit,
                reserved_ppm: 250_000,
                room_ppm: 250_000,
                fits_ns: 0,
                period_ns: 1,
            }
            .to_string()
        };
        assert_eq!(
            none_left(Limit::User),
            "you have 25 % of a CPU reserved and may have 25 % of one together (root more): nothing more fits"
        );
        assert_eq!(
            none_left(Limit::UsersOfCpu(3)),
            "users other than root have 25 % of CPU 3 reserved and may have 25 % of each: nothing more fits"
        );
        assert_eq!([400_000, 12_500, 123].map(percent), ["40 %", "1.25 %", "0.01 %"]);
    }
}
