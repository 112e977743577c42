//! Properties of the running kernel, and the differences between kernels. Each difference is found in the
//! running kernel itself, and never by its version.
//!
//! The headers in `include` are for BPF programs, and under GPL-2.0-only as these are: the headers are
//! compiled into BPF programs only.

mod functions;
mod types;

pub use functions::{Functions, function};
pub use types::{Kernel, PreemptCount};

/// The bit that marks a thread of the kernel, in `task_struct.flags` and in the field `flags` of
/// `/proc/PID/stat`.
pub const PF_KTHREAD: u64 = 0x0020_0000;

/// How many bits of a device number are the minor number, in the kernel's own form.
const MINOR_BITS: u32 = 20;

/// The number of a device in the kernel's own form (`dev_t`), from the form in which `stat` returns it.
#[must_use]
pub const fn device(device: libc::dev_t) -> u32 {
    libc::major(device) << MINOR_BITS | libc::minor(device)
}
