//! Reservations of CPU time: so much in every period, on one CPU, for a thread or a process. The crate has
//! the terms of reservations, their admission ([`Admission`]), their enforcers ([`Enforcer`]), and proposals
//! for a task ([`propose()`]).

mod admission;
mod busy;
mod ceiling;
mod enforcer;
mod propose;
mod real_rate;
mod refused;
mod share;
mod terms;

pub use admission::{Admission, Ask, Limits, Owner, SLOTS_MAX};
pub use busy::{Busy, larger_budget_ns, most_budget_ns};
pub use ceiling::{Bound, CLIENTS_MAX, Client, MEASURED_PERCENT, ServerUsage, ranked, tries};
pub use enforcer::{Enforcer, Measurement};
pub use propose::{Activity, NoProposal, Proposal, propose};
pub use real_rate::{End, Look, RealRate};
pub use refused::{Limit, ReservationError};
pub use share::MILLION;
pub use terms::{
    BUDGET_MIN_NS, Covers, OnExhaustion, PERIOD_MAX_NS, PERIOD_MIN_NS, Reservation, Terms, exact_us,
};
