//! The system calls that several parts need, as safe functions over `rustix`, and over `libc` where
//! `rustix` has none. No other crate calls the kernel by `unsafe` code, except for memory that it shares with
//! BPF programs and for guardians (`crates/base/tidy/tests/unsafe_code.rs`).
//!
//! Times are in ns. Processes and threads are named by their numbers; 0 is the calling process or thread if
//! a function's comment allows it. Errors are the kernel's.

pub mod alarm;
pub mod attributes;
pub mod clock;
pub mod cpus;
pub mod device;
pub mod file;
pub mod futex;
pub mod input;
pub mod measured;
pub mod memory;
pub mod message;
pub mod namespace;
pub mod outlive;
pub mod perf;
pub mod poll;
pub mod process;
pub mod queue;
pub mod run_time;
pub mod schedule;
pub mod settle;
pub mod signal;
pub mod slack;
pub mod user;

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;
use rustix::process::Pid;
pub use rustix::process::{Resource, Signal};

/// Makes a pipe, and returns its reading and its writing end.
///
/// # Errors
/// If the process can have no further descriptor.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// The result of a call that returns -1 in case of an error.
fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A number as `rustix` has it.
///
/// # Errors
/// `ESRCH` if no process can have this number.
fn number(id: u32) -> io::Result<Pid> {
    let id = i32::try_from(id).ok().filter(|&id| id > 0).and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// A number as `rustix` has it; 0 is the calling thread or process.
fn number_or_own(id: u32) -> io::Result<Option<Pid>> {
    if id == 0 { Ok(None) } else { number(id).map(Some) }
}
