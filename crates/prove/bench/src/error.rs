//! The reasons why a benchmark gives no result. Each message describes what the user can do.

use std::io;

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The CPU does not exist, or this process may not use it.
    #[error("cannot run on CPU {cpu} ({error}): this process may use {allowed:?}")]
    Cpu {
        /// The requested CPU.
        cpu: u32,
        /// The CPUs that this process may use.
        allowed: Vec<u32>,
        /// The error of the system.
        error: io::Error,
    },
    /// This user may not run at a real-time priority.
    #[error(
        "no permission for real-time priority {priority} ({error}): run as root, or grant CAP_SYS_NICE, \
         or leave --priority out"
    )]
    NotRealTime {
        /// The requested priority, 1 to 99.
        priority: u8,
        /// The error of the system.
        error: io::Error,
    },
    /// No timer that interrupts at a rate can be made.
    #[error(
        "no timer that interrupts at a rate (perf_event_open: {0}): run as root, \
         or `sysctl kernel.perf_event_paranoid=2`; --only with the other names does without"
    )]
    NoTimer(io::Error),
    /// Other programs had the CPU in too many samples.
    #[error(
        "others had CPU {cpu} in {set_aside} of {all} samples, and {needed} undisturbed ones are needed: \
         stop what runs beside it, name another CPU (--cpu), take more time (--duration), \
         or get out of its way (--priority 1)"
    )]
    Disturbed {
        /// The CPU that was measured.
        cpu: u32,
        /// How many samples other programs disturbed.
        set_aside: u64,
        /// How many samples there were.
        all: u64,
        /// How many undisturbed samples are needed.
        needed: usize,
    },
    /// No interrupt has the tick's period.
    #[error(
        "no interrupt comes with the tick's period on CPU {cpu}: if its tick is off (nohz_full), \
         name another with --cpu"
    )]
    NoTick {
        /// The CPU that was measured.
        cpu: u32,
    },
    /// The kernel does not report the size of the cache.
    #[error(
        "this kernel does not say how large the level {0} cache of that CPU is \
         (/sys/devices/system/cpu/cpu*/cache)"
    )]
    NoCache(u32),
    /// The user ended the benchmark before it had a result.
    #[error("interrupted before there was anything to say")]
    Interrupted,
    /// A system call failed unexpectedly.
    #[error("cannot {what}: {error}")]
    System {
        /// The purpose of the call.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
}

impl Error {
    /// Makes an error from a failed system call, for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::System { what, error }
    }
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
