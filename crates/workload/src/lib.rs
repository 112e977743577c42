//! Scenarios: what runs, and the runner of real threads.

pub mod kinds;
pub mod metrics;
pub mod programs;
mod rtapp;
pub mod runner;
mod scenario;
pub mod x11;

pub use scenario::{keys, mistake, model, program};
