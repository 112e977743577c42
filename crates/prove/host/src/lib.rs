//! This machine as a machine of experiments: real threads under the real kernel.
//!
//! [`Host`] puts a scheduler in force, records if it is asked to, and lets `spry-runner` play the cell in a
//! process of its own.

mod applied;
mod host;

pub use applied::ApplyError;
pub use host::{Host, HostError};
