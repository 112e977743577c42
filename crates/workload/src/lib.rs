//! Scenarios: what runs, and the runner of real threads.

pub mod kinds;
pub mod metrics;
mod rtapp;
pub mod runner;
mod scenario;
pub mod x11;

pub use scenario::{keys, mistake, model, program};
