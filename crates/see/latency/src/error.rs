//! The errors that prevent a measurement or end it early; each text names the remedy.

use std::io;
use std::path::PathBuf;

/// The errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This user may not run threads at the requested real-time priority.
    #[error(
        "no permission for real-time priority {priority} (this user may use up to {allowed}): run as root, \
         or grant it (CAP_SYS_NICE; `ulimit -r {priority}` after a line `@GROUP - rtprio {priority}` in \
         /etc/security/limits.conf; LimitRTPRIO={priority} in a systemd unit), or look \
         without it: --priority 0"
    )]
    NotRealTime {
        /// The requested priority, 1 to 99.
        priority: u8,
        /// The highest priority that this user may have, 0 to 99.
        allowed: u64,
    },
    /// The control group has no real-time run time, so not even root may have a real-time priority.
    #[error(
        "no real-time priority in this control group, whose share of real-time run time is 0: \
         write one into {} (950000 is usual), run from another group, or look \
         without it: --priority 0", .0.display()
    )]
    GroupNotRealTime(PathBuf),
    /// The CPU does not exist, or is not allowed.
    #[error("cannot run on CPU {cpu} ({error}): this process may use {allowed}")]
    Cpu {
        cpu: u32,
        /// The CPUs that may be used, as a list.
        allowed: String,
        /// The system's error.
        error: io::Error,
    },
    /// There is no real-time clock.
    #[error("there is no real-time clock here ({}: {error}): use --source nanosleep \
             or --source timerfd", path.display())]
    NoRtc {
        /// The device that was looked for.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The real-time clock refuses the rate.
    #[error(
        "the real-time clock does not interrupt {rate_hz} times a second ({error}): \
         root may use the powers of two from 2 to 8192, others up to /proc/sys/dev/rtc/max-user-freq"
    )]
    RtcRate {
        /// The requested rate, Hz.
        rate_hz: u32,
        /// The system's error.
        error: io::Error,
    },
    /// A real-time clock wakes one thread.
    #[error("there is one real-time clock, and it wakes one thread: name one CPU, or --cpus any")]
    RtcThreads,
    /// The configuration allows no measurement.
    #[error("{0}")]
    Config(&'static str),
    /// A system call failed unexpectedly.
    #[error("cannot {what}: {error}")]
    System {
        /// The action that failed, as it follows "cannot".
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// A file of results cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file holds no results.
    #[error("{}: these are no results of spry latency: {reason}", path.display())]
    Format {
        path: PathBuf,
        /// The fault of the text, in words.
        reason: String,
    },
    /// Results of different measurements, which cannot be added.
    #[error("results of different measurements cannot be added: {0} differs")]
    Unlike(&'static str),
}

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
