//! The library of `spry-sched`: the collection of dependencies, the actuators, the guardian, and the daemon
//! that puts these together.

pub mod actuator;
pub mod collect;
pub mod daemon;
pub mod deadline;
pub mod fair;
pub mod guardian;
pub mod intf;
mod mapping;
pub mod nodes;
pub mod scx;
pub mod slack;
pub mod verdict_word;
