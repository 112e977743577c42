//! Why a benchmark comes to nothing; each says what to do.

use std::io;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A CPU that is not there, or not allowed.
    #[error("cannot run on CPU {cpu} ({error}): this process may use {allowed:?}")]
    Cpu {
        /// The CPU.
        cpu: u32,
        /// Those that may be used.
        allowed: Vec<u32>,
        /// What the system said.
        error: io::Error,
    },
    /// This user may not run at a real-time priority.
    #[error(
        "no permission for real-time priority {priority} ({error}): run as root, or grant CAP_SYS_NICE, or leave --priority out"
    )]
    NotRealTime {
        /// What was asked for, 1 to 99.
        priority: u8,
        /// What the system said.
        error: io::Error,
    },
    /// There is no timer to interrupt with.
    #[error(
        "no timer that interrupts at a rate (perf_event_open: {0}): run as root, or `sysctl kernel.perf_event_paranoid=2`; \
         --only with the other names does without"
    )]
    NoTimer(io::Error),
    /// Others ran in between too often.
    #[error(
        "others had CPU {cpu} in {set_aside} of {all} samples, and {needed} undisturbed ones are needed: stop what runs beside it, \
         name another CPU (--cpu), take more time (--duration), or get out of its way (--priority 1)"
    )]
    Disturbed {
        /// The CPU.
        cpu: u32,
        /// How many samples others disturbed.
        set_aside: u64,
        /// Of how many.
        all: u64,
        /// How many undisturbed ones are needed.
        needed: usize,
    },
    /// No interrupt has the tick's period.
    #[error(
        "no interrupt comes with the tick's period on CPU {cpu}: if its tick is off (nohz_full), name another with --cpu"
    )]
    NoTick {
        /// The CPU.
        cpu: u32,
    },
    /// Nobody knows how large the cache is.
    #[error(
        "this kernel does not say how large the level {0} cache of that CPU is (/sys/devices/system/cpu/cpu*/cache)"
    )]
    NoCache(u32),
    /// Somebody ended it before there was anything.
    #[error("interrupted before there was anything to say")]
    Interrupted,
    /// A system call that should have worked did not.
    #[error("cannot {what}: {error}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl Error {
    /// A failed call of the system, for `map_err`.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::System { what, error }
    }
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
