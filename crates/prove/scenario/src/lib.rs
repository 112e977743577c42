//! Scenarios: what runs, on which machine, for how long, and what a run says. A scenario is TOML with
//! variables, or rt-app's JSON; each mistake is reported with file and line.
//!
//! Nothing here acts: texts come from the caller, and what a scenario says is played by a machine.

pub mod chance;
mod doc;
mod expr;
pub mod keys;
pub mod kinds;
pub mod metrics;
pub mod mistake;
pub mod model;
pub mod outcome;
mod parse;
mod phases;
pub mod program;
mod rtapp;
pub mod screen;
mod variables;
