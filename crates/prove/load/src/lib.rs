//! Loads for measurements of latency, with the names of their papers: six are from "Measuring Scheduler
//! Latency" (Williams 2002), three from Time-Sensitive Linux (Goel and others 2002, section 4.2.1).
//!
//! [`start`] runs loads until the [`RunningLoads`] that it returns is stopped or dropped. No process or file
//! of the loads remains in any case. The loads run in namespaces of processes, mounts, network and IPC of
//! their own. When the first process there, the *crew*, ends, the kernel ends all other processes. The crew
//! ends when its *guardian* ends. The guardian is a process outside the namespaces. It also watches the
//! caller and removes the directory of the loads. If caller and guardian are both killed at once, the kernel
//! ends the namespaces, and the next [`start`] or [`clean`] removes the directory.
//!
//! The network namespace has only a loopback device, so no load can be reached from outside.

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
pub use journal::{Cleanup, clean};
pub use message::State;
pub use options::Options;
pub use running::{LoadState, LoadSummary, RunningLoads, Summary, start};
pub use suite::{Load, SOURCE_PACKAGE};
