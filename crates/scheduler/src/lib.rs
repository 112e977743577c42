//! The parts of the scheduler's daemon: what the kernel tells of who depends on whom, and what acts on it.

pub mod actuator;
pub mod collect;
pub mod intf;
pub mod nodes;
