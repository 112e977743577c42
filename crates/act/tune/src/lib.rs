//! Knobs of the kernel's own scheduling classes: the quantum of the fair class, for a command or for the
//! machine, and that of the round-robin class. They are set while a command runs and given back afterwards,
//! also if the process that set them is killed.
//!
//! [`Wish`] is the request, [`Plan`] is its settings on this kernel, and [`AppliedPlan`] is the settings in
//! force.
//! Settings of the machine are written into a book first (`book.rs`). Several processes may set the same
//! knob at once: the latest value is in force, and the last process gives back the first value. A guardian
//! (`guardian.rs`) does that for a process that is killed. If both are killed, the next one does it.
//!
//! [`slack`] is the timer slack of a command or a process. It belongs to its threads, so
//! nothing is given back.
//!
//! The scheduler's daemon has no part in this yet.

mod book;
mod error;
mod guardian;
mod kernel;
mod plan;
pub mod slack;
mod tuned;
mod wish;

pub use book::{Back, restore};
pub use error::TuneError;
pub use kernel::Kernel;
pub use plan::{Plan, Slice};
pub use tuned::{AppliedPlan, Knob, Scope, Value};
pub use wish::{Class, QUANTUM_US, Reach, TICK_HZ, Wish, quantum_us, tick_hz};
