//! Loads for measurements of latency: the six of "Measuring Scheduler Latency" (Williams 2002) and the three of
//! Time-Sensitive Linux (Goel and others 2002, section 4.2.1), under their own names.
//!
//! [`start`] runs some of them until the [`Running`] that it returns is stopped or dropped. Whatever happens meanwhile, nothing
//! of them is left: they live in namespaces of processes, mounts, network and IPC of their own, whose first process, the *crew*,
//! takes all others with it when it ends; that one ends when its *guardian* does, a process outside that also watches
//! the caller and removes the directory. Where caller and guardian are both killed at once, the kernel ends the
//! namespaces, and the directory is removed by the next [`start`] or by [`clean`].
//!
//! The network namespace has nothing but a loopback device, so that no load can be reached from anywhere else.

mod board;
mod compile;
mod confine;
mod cpus;
mod crew;
mod error;
mod guardian;
mod journal;
mod message;
mod needs;
mod nfs;
mod options;
mod own;
mod running;
mod stress;
mod suite;
mod usage;

pub use cpus::CpuList;
pub use error::LoadError;
pub use journal::{Cleaned, clean};
pub use message::State;
pub use options::Options;
pub use running::{LoadState, LoadSummary, Running, Summary, start};
pub use suite::{Load, SOURCE_PACKAGE};
