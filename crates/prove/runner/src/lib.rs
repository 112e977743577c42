//! Plays scenarios with real processes and threads on this machine, and returns the measurements.

pub mod budget;
mod children;
mod control;
mod ground;
mod groups;
mod kinds;
pub mod programs;
mod run;
mod source;
mod stage;
mod steps;
pub mod timers;
pub mod work;
pub mod x11;

pub use run::{DisplayServer, Options, RunError, run};
