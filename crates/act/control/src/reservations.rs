//! The daemon's answers about reservations. An unknown value is null, never 0.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spry_reservations::{Covers, Terms};

use crate::Scope;

/// The answer that time is reserved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenedReservation {
    /// The number by which the reservation is known while it lasts.
    pub slot: u32,
    /// The CPU on which the time is reserved.
    pub cpu: u32,
    /// How much CPU time, and how often.
    #[serde(flatten)]
    pub terms: Terms,
    /// The enforcer: `scx` or `deadline`.
    pub enforcer: String,
    /// The differences from the request, one line each.
    pub notes: Vec<String>,
}

/// The current reservations. The answer to an ordinary user has only this user's own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Reservations {
    /// The users that the answer covers: all, or the caller alone.
    pub scope: Scope,
    /// The enforcer: `scx` or `deadline`.
    pub enforcer: String,
    /// The reservations, by slot.
    pub reservations: Vec<ReservationStatus>,
    /// The shared servers; only root's answer has any.
    #[serde(default)]
    pub ceilings: Vec<Ceiling>,
}

impl Reservations {
    /// The reserved share of each CPU, 0 to 1, by the reservations in this answer.
    pub fn shares(&self) -> BTreeMap<u32, f64> {
        let mut shares = BTreeMap::new();
        for one in &self.reservations {
            *shares.entry(one.cpu).or_default() += one.terms.budget_ns as f64 / one.terms.period_ns as f64;
        }
        shares
    }
}

/// Why the daemon treats a server as shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CeilingOf {
    /// Root named the server (`spry ceiling`).
    Name,
    /// The server serves a display.
    Display,
}

/// A shared server, and its ceiling while it has one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ceiling {
    /// Why the daemon treats the server as shared.
    pub of: CeilingOf,
    /// The server's threads to which the ceiling applies.
    pub covers: Covers,
    /// The process of these threads.
    pub tgid: u32,
    /// The name of the thread, or of the process.
    pub comm: String,
    /// The slot of the ceiling; null while no reserved task uses the server, or if no ceiling fits.
    pub slot: Option<u32>,
    /// The CPU where the server has its rank.
    pub cpu: Option<u32>,
    /// The most CPU time that the server may take by its rank in each period, ns.
    pub budget_ns: Option<u64>,
    /// The shortest period of its clients, ns.
    pub period_ns: Option<u64>,
    /// Whether the bound is measured; otherwise it was given.
    pub is_measured: bool,
    /// The slots of the reservations of clients that have used the server.
    pub clients: Vec<u32>,
    /// How many requests the server completed while it had a rank. A request ends when the server sleeps.
    pub requests: u64,
    /// The longest CPU time of one request, ns.
    pub longest_ns: u64,
    /// The longest CPU time of all requests in one period, ns.
    pub most_ns: u64,
    /// In how many periods the server took more than its bound, and was demoted for the rest.
    pub demoted: u64,
    /// Why the server has no ceiling, or why its ceiling is not the measured one; null if nothing is wrong.
    pub trouble: Option<String>,
}

/// A reservation, and how much CPU time its tasks got since it was opened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReservationStatus {
    /// The number by which the reservation is known.
    pub slot: u32,
    /// The CPU on which the time is reserved.
    pub cpu: u32,
    /// How much CPU time, and how often.
    #[serde(flatten)]
    pub terms: Terms,
    /// The threads for which time is reserved.
    pub covers: Covers,
    /// The process of these threads.
    pub tgid: u32,
    /// The name of the thread, or of the process.
    pub comm: String,
    /// The user that asked for it.
    pub uid: u32,
    /// How many periods have ended.
    pub periods: u64,
    /// The CPU time that the tasks had, ns.
    pub got_ns: u64,
    /// The budgets of these periods together, ns.
    pub asked_ns: u64,
    /// The CPU time beyond `asked_ns`, ns; negative if the tasks had less.
    pub deviation_ns: i64,
    /// The time that interrupts took from the tasks, ns.
    pub stolen_ns: Option<u64>,
    /// The number of periods in which the budget was used up.
    pub exhausted: Option<u64>,
    /// The largest shortfall in one period for a task that was ready to use its whole budget, ns.
    pub worst_short_ns: Option<u64>,
    /// The longest delay of the beginning of a period, ns.
    pub worst_late_ns: Option<u64>,
    /// How often one of its tasks was found on a CPU other than the reservation's.
    pub misplaced: Option<u64>,
    /// How far the task of a real-rate reservation is behind its pipes, percent; the target is 50.
    #[serde(default)]
    pub behind_percent: Option<u8>,
    /// Why the latest terms of a real-rate reservation were refused; null if they were not.
    #[serde(default)]
    pub trouble: Option<String>,
}
