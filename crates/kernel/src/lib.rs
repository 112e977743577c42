//! What the running kernel tells of itself, and where kernels differ. Every difference is found by looking at what is there;
//! versions are never asked.
//!
//! The headers in `include` are for BPF programs, and like them under GPL-2.0-only: they are compiled into them and into no
//! other program.

mod functions;
mod types;

pub use functions::{Functions, function};
pub use types::{Kernel, PreemptCount};

/// A thread of the kernel, in `task_struct.flags` and in `/proc`'s line of numbers.
pub const PF_KTHREAD: u64 = 0x0020_0000;
