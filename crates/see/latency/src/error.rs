//! Why a measurement cannot begin, or ended early; each says what to do.

use std::io;
use std::path::PathBuf;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This user may not run threads at the real-time priority that was asked for.
    #[error(
        "no permission for real-time priority {priority} (this user may use up to {allowed}): run as root, \
         or grant it (CAP_SYS_NICE; `ulimit -r {priority}` after a line `@GROUP - rtprio {priority}` in \
         /etc/security/limits.conf; LimitRTPRIO={priority} in a systemd unit), or look \
         without it: --priority 0"
    )]
    NotRealTime {
        /// The priority that was asked for, 1 to 99.
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
    /// A CPU that is not there, or not allowed.
    #[error("cannot run on CPU {cpu} ({error}): this process may use {allowed}")]
    Cpu {
        cpu: u32,
        /// The CPUs that may be used, as a list.
        allowed: String,
        /// What the system said.
        error: io::Error,
    },
    /// There is no real-time clock.
    #[error("there is no real-time clock here ({}: {error}): use --source nanosleep \
             or --source timerfd", path.display())]
    NoRtc {
        /// The device that was looked for.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The real-time clock refuses the rate.
    #[error(
        "the real-time clock does not interrupt {rate_hz} times a second ({error}): \
         root may use the powers of two from 2 to 8192, others up to /proc/sys/dev/rtc/max-user-freq"
    )]
    RtcRate {
        /// The rate that was asked for, Hz.
        rate_hz: u32,
        /// What the system said.
        error: io::Error,
    },
    /// A real-time clock wakes one thread.
    #[error("there is one real-time clock, and it wakes one thread: name one CPU, or --cpus any")]
    RtcThreads,
    /// The configuration is none that can be measured with.
    #[error("{0}")]
    Config(&'static str),
    /// A system call that should have worked did not.
    #[error("cannot {what}: {error}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A file of results cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file that holds no results.
    #[error("{}: these are no results of spry latency: {reason}", path.display())]
    Format {
        path: PathBuf,
        /// What is wrong with the text, in words.
        reason: String,
    },
    /// Results that do not belong together.
    #[error("results of different measurements cannot be added: {0} differs")]
    Unlike(&'static str),
}

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;
