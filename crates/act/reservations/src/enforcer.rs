//! What gives reserved tasks their time.

use std::io;

use serde::{Deserialize, Serialize};

use crate::{Reservation, Served, Terms};

/// What was measured of a reservation since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// How many periods have ended.
    pub periods: u64,
    /// The CPU time that the tasks had from their reservation, ns.
    pub got_ns: u64,
    /// The budgets of these periods together, ns.
    pub asked_ns: u64,
    /// The time that interrupts took while the tasks had the CPU, ns.
    pub stolen_ns: u64,
    /// In how many periods the budget was used up.
    pub exhausted: u64,
    /// The most that a task that wanted its whole budget lacked of it in one period, ns.
    pub worst_short_ns: u64,
    /// The most that a period began late, ns.
    pub worst_late_ns: u64,
    /// How often a task was found on another CPU than the reservation's.
    pub misplaced: u64,
}

/// What enforces reservations: the scheduler's RESERVED class, or the kernel's SCHED_DEADLINE. Whatever opens
/// a reservation has asked [`Admission`](crate::Admission) before.
pub trait Enforcer {
    /// Gives tasks their reservation.
    ///
    /// # Errors
    /// Where the kernel refuses; the text is one line for the user. Nothing has changed then.
    fn open(&mut self, reservation: &Reservation) -> io::Result<()>;

    /// Gives a reservation other terms.
    ///
    /// # Errors
    /// As [`Enforcer::open`].
    fn change(&mut self, slot: u32, terms: &Terms) -> io::Result<()>;

    /// Makes a reservation the ceiling of a shared server: its tasks are ranked as the reservations of
    /// `clients`, which are slots, are.
    ///
    /// # Errors
    /// Where this enforcer knows no ceilings.
    fn rank_as(&mut self, _slot: u32, _clients: &[u32]) -> io::Result<()> {
        Err(io::Error::other(format!(
            "reservations are enforced by {}, which knows no ceilings: they need sched_ext (--actuator scx)",
            self.name()
        )))
    }

    /// What was measured of a shared server since this was last asked.
    fn served(&mut self, _slot: u32) -> Served {
        Served::default()
    }

    /// Ends a reservation: its tasks are scheduled as before. A slot that is not in use is no error.
    fn close(&mut self, slot: u32);

    /// There has been no reservation of late: what is kept ready for them may go. This is told once a second
    /// at most, so that opening and closing without end attaches nothing each time.
    fn rest(&mut self) {}

    /// What was measured of a reservation; `None` if there is none in this slot.
    fn measured(&self, slot: u32) -> Option<Measured>;

    /// The enforcer's name.
    fn name(&self) -> &'static str;
}
