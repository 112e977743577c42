//! Spry's trace: what was recorded of a machine, in a form that survives a crash and reads fast.
//!
//! [`event`] is the model that every part of Spry speaks, [`header`] describes the machine. The bytes of a file
//! are specified in `docs/trace-format.md`.

pub mod event;
pub mod header;

pub use event::{Event, Stamped, Tgid, Tid};
pub use header::{Group, Groups, Header};
