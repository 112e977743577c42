//! The policy finds the processes in use by the flow of information from the user through the processes. It
//! decides the level and the quantum of each process in use.
//!
//! Pure code: time is an argument, nothing is read or written, so the scheduler's daemon and a simulator
//! decide alike. "Thesis" is Etsion's *Scheduling of interactive processes* (2003), chapters 7 and 8. Each
//! second a [`Policy`] takes processes' input and drawing, and their waits for each other ([`Graph`]). It
//! gives each process that the user's information reaches a [`Standing`]: level, quantum and reason.

#![warn(missing_docs)]

mod constants;
mod device;
mod graph;
mod quanta;
mod rating;
mod round;
mod search;
mod trigger;

pub use constants::{
    Constants, InputRank, LevelQuanta, ServedProcesses, ServerEdges, Waits, WakeRule, Writers,
};
pub use device::{Device, DeviceOwner, Place, Sample, Server};
pub use graph::{EDGES_MAX, Edge, Graph};
pub use quanta::quantum_us;
pub use rating::{Changes, Rating};
pub use round::{Policy, Standing};
pub use search::{Via, Way};
pub use spry_task::Tgid;
pub use trigger::{Due, Trigger};
