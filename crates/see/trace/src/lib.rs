//! Spry's trace: the recorded events of a machine, in a format that survives a crash and reads fast.
//!
//! [`event`] is the event model that every part of Spry uses, [`header`] describes the machine. The bytes of
//! a file are specified in `docs/trace-format.md`.

#![warn(missing_docs)]

mod decode;
mod encode;
pub mod event;
pub mod flight;
pub mod format;
mod frame;
pub mod header;
pub mod index;
pub mod kinds;
mod lane;
mod predict;
pub mod reader;
pub mod varint;
pub mod writer;

pub use event::{Event, Stamped, Tgid, Tid};
pub use flight::Flight;
pub use header::{Group, Groups, Header};
pub use kinds::{Kind, Kinds};
pub use reader::{ReadError, Reader, Totals};
pub use writer::{Compression, Options, Writer};
