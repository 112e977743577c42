//! The parts of `spry-sched`: what the daemon learns, what it acts through, and the daemon itself, which puts
//! the parts together.

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
pub mod verdict_word;
