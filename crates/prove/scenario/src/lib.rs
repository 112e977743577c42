//! Scenarios: the tasks of a run, its machine, its duration and its metrics. A scenario is TOML with
//! variables, or rt-app's JSON; each mistake is reported with file and line.
//!
//! This crate performs no actions: texts come from the caller, and a machine plays the scenario.

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
