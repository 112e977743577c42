//! The parts of `spry-sched`: what it learns, what it acts through, and the daemon that puts them together.

pub mod actuator;
pub mod collect;
pub mod daemon;
pub mod fair;
pub mod guardian;
pub mod intf;
mod mapping;
pub mod nodes;
pub mod scx;
pub mod verdict_word;
