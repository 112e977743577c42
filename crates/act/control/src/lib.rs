//! The protocol between `spry` and its scheduler daemon: one line of JSON for a question, one or more
//! for the answer.
//!
//! A program in any language can be a client: it writes `{"ask":"status"}` and a line feed to the socket, and
//! reads a line. Later versions may add fields; readers ignore unknown fields.

#![warn(missing_docs)]

mod args;
mod client;
mod explanation;
pub mod peer;
mod quanta;
mod request;
mod reservations;
pub mod rtkit;
mod status;
mod ticks;
mod tuning;

use std::path::{Path, PathBuf};

pub use args::{ActuatorArg, CeilingsArg, DaemonArgs, DaemonCommand, PolicyArg, RunArgs, TimerSlackArg};
pub use client::{Client, ControlError};
pub use explanation::{Credit, CreditKind, Explanation, Neighbour};
pub use quanta::{Knobs, Quanta, QuantumClass, QuantumUs};
pub use request::{Answer, Done, HandClass, Refusal, RefusalKind, Request, ReservationChoice};
pub use reservations::{Ceiling, CeilingOf, OpenedReservation, ReservationStatus, Reservations};
pub use spry_reservations::{Covers, OnExhaustion, Terms};
pub use status::{
    ActingStatus, Device, Ejection, GraphSize, PolicyName, Rounds, Scope, State, Status, Step, TaskClass,
    TaskStatus, TimerSlack,
};
pub use ticks::{TickCost, Ticks, TicksOfCpu};
pub use tuning::{QUANTUM_US_LEAST, QUANTUM_US_MOST, TICK_HZ_LEAST, TICK_HZ_MOST, Tuning, TuningError};

/// The path of the daemon's socket, unless an option or `SPRY_SOCKET` names another.
pub const SOCKET_DEFAULT: &str = "/run/spry/sched.sock";

/// The environment variable that names another socket.
pub const SOCKET_VARIABLE: &str = "SPRY_SOCKET";

/// The longest question, bytes; no program of Spry sends a longer one.
pub const REQUEST_MAX: usize = 4096;

/// The path of the daemon's socket: the path that is given, or that `SPRY_SOCKET` gives, or the default.
pub fn socket(named: Option<PathBuf>) -> PathBuf {
    named
        .or_else(|| std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(SOCKET_DEFAULT))
}

/// The path of the socket that only root can open, beside the socket for all users: root's questions do not
/// wait behind other users'.
pub fn root_socket(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".root");
    PathBuf::from(name)
}

/// The path of the socket to which compositors and games report: `report.sock`, beside the daemon's socket.
pub fn report_socket(named: Option<PathBuf>) -> PathBuf {
    socket(named).with_file_name("report.sock")
}
