//! What `spry` and its scheduler daemon say to each other: one line of JSON for a question, one or more for the answer.
//!
//! A program of any language can ask: write `{"ask":"status"}` and a line feed to the socket and read a line. Fields may be
//! added in later versions; readers leave alone what they do not know.

mod args;
mod client;
mod explanation;
pub mod peer;
mod request;
mod status;

use std::path::PathBuf;

pub use args::{ActuatorArg, DaemonArgs, DaemonCommand, PolicyArg, RunArgs};
pub use client::{Client, ControlError};
pub use explanation::{Credit, CreditKind, Explanation, Neighbour};
pub use request::{Answer, Done, HandClass, Refusal, RefusalKind, Request};
pub use status::{
    Acting, Device, Ejection, GraphSize, PolicyName, Rounds, State, Status, Step, Task, TaskClass,
};

/// Where the daemon listens unless told otherwise.
pub const SOCKET_DEFAULT: &str = "/run/spry/sched.sock";

/// The environment variable that names another socket.
pub const SOCKET_VARIABLE: &str = "SPRY_SOCKET";

/// The longest question, bytes: whoever sends more is not one of ours.
pub const REQUEST_MAX: usize = 4096;

/// The daemon's socket: as named, or as `SPRY_SOCKET` says, or the usual one.
pub fn socket(named: Option<PathBuf>) -> PathBuf {
    named
        .or_else(|| std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(SOCKET_DEFAULT))
}

/// Where compositors and games report: beside the daemon's socket, `report.sock`.
pub fn report_socket(named: Option<PathBuf>) -> PathBuf {
    socket(named).with_file_name("report.sock")
}
