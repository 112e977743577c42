//! Analyses of a trace: one file for each analysis, and an engine that feeds them all in one pass.
//!
//! [`Engine`] takes a trace's events in order of time and gives [`findings::Findings`]. [`analysis::ALL`]
//! lists the analyses. Memory is bounded however long the trace: under 100 MiB for the first 1,000 tasks, 2
//! KiB for each further one.

pub mod analysis;
pub mod batch;
mod billing;
mod counting;
mod cpu;
mod culprits;
mod delays;
mod dense;
mod dispatch;
mod drawing;
mod engine;
mod expiry;
pub mod findings;
mod frames;
mod graph;
pub mod histogram;
mod history;
mod idle;
mod ipc;
mod marks;
mod phases;
mod quanta;
mod reasons;
pub mod select;
mod steps;
mod stolen;
mod tasks;
mod timers;
mod wakeup;
mod withheld;

pub use counting::{CounterSet, FullBatch};
pub use engine::{Engine, Error, Options, Progress, TraceTotals};
pub use findings::Findings;
pub use select::{Root, Selection, TaskPattern};
