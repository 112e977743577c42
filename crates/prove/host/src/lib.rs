//! The host machine for experiments: real threads under the real kernel.
//!
//! [`Host`] puts a scheduler in force, records a trace on request, and lets `spry-runner` play the cell in a
//! process of its own.

mod applied;
mod host;

pub use applied::ApplyError;
pub use host::{Host, HostError};
