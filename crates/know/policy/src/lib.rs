//! The policy finds which processes are in use by the flow of information from the user through the
//! processes, and decides what each process in use gets.
//!
//! Pure code: time is an argument, nothing is read or written, so the scheduler's daemon and a simulator
//! decide alike. "Thesis" is Etsion's *Scheduling of interactive processes* (2003), chapters 7 and 8. Each
//! second a [`Policy`] takes what was drawn and received, and which process waited for which ([`Graph`]). It
//! gives each process that the user's information passes through a [`Standing`]: level, quantum and why.

#![warn(missing_docs)]

mod constants;
mod device;
mod graph;
mod quanta;
mod rating;
mod round;
mod search;
mod trigger;

pub use constants::{Constants, InputRank, LevelQuanta, Served, ServerEdges, Waits, WakeRule, Writers};
pub use device::{Device, Place, Sample, Server, Whose};
pub use graph::{EDGES_MAX, Edge, Graph};
pub use quanta::quantum_us;
pub use rating::{Changes, Rating};
pub use round::{Policy, Standing};
pub use search::{Found, Via};
pub use spry_task::Tgid;
pub use trigger::{Due, Trigger};
