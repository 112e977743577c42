//! The interface of the enforcers, which give reserved tasks their time.

use std::io;

use serde::{Deserialize, Serialize};

use crate::{Reservation, ServerUsage, Terms};

/// The measurement of a reservation since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// How many periods have ended.
    pub periods: u64,
    /// The CPU time that the tasks had from their reservation, ns.
    pub got_ns: u64,
    /// The budgets of these periods together, ns.
    pub asked_ns: u64,
    /// The time that interrupts took while the tasks had the CPU, ns.
    pub stolen_ns: u64,
    /// The number of periods in which the budget was used up.
    pub exhausted: u64,
    /// The largest shortfall in one period for a task that was ready to use its whole budget, ns.
    pub worst_short_ns: u64,
    /// The longest delay of the beginning of a period, ns.
    pub worst_late_ns: u64,
    /// How often one of its tasks was found on a CPU other than the reservation's.
    pub misplaced: u64,
}

/// An enforcer of reservations: the scheduler's RESERVED class, or the kernel's SCHED_DEADLINE. Callers open
/// only reservations that [`Admission`](crate::Admission) has admitted.
pub trait Enforcer {
    /// Gives tasks their reservation.
    ///
    /// # Errors
    /// If the kernel refuses; the text is one line for the user. Nothing has changed then.
    fn open(&mut self, reservation: &Reservation) -> io::Result<()>;

    /// Gives a reservation other terms.
    ///
    /// # Errors
    /// As [`Enforcer::open`].
    fn change(&mut self, slot: u32, terms: &Terms) -> io::Result<()>;

    /// Makes a reservation the ceiling of a shared server: its tasks get the rank of the reservations in
    /// `clients`, which are slots.
    ///
    /// # Errors
    /// If this enforcer has no ceilings.
    fn rank_as(&mut self, _slot: u32, _clients: &[u32]) -> io::Result<()> {
        Err(io::Error::other(format!(
            "reservations are enforced by {}, which knows no ceilings: they need sched_ext (--actuator scx)",
            self.name()
        )))
    }

    /// The measurement of a shared server since the previous call.
    fn served(&mut self, _slot: u32) -> ServerUsage {
        ServerUsage::default()
    }

    /// Ends a reservation: its tasks are scheduled as before. A slot that is not in use is no error.
    fn close(&mut self, slot: u32);

    /// There have been no reservations lately: the enforcer may release the resources that it keeps for them.
    /// It is called once a second at most, so that frequent opening and closing does not attach each time.
    fn rest(&mut self) {}

    /// The measurement of a reservation; `None` if there is none in this slot.
    fn measured(&self, slot: u32) -> Option<Measurement>;

    /// The enforcer's name.
    fn name(&self) -> &'static str;
}
