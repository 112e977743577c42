//! The errors of setting knobs. A message says why a knob cannot be set, and what the user can do.

use std::io;
use std::path::{Path, PathBuf};

use spry_setting::Setting;
use thiserror::Error;

/// Why a knob could not be set or given back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A number is out of its limits.
    #[error("{option} {text:?}: {what}, {least} to {most}")]
    Limit {
        /// The option of the command line.
        option: &'static str,
        /// The text that was given.
        text: String,
        /// The meaning of the number.
        what: &'static str,
        /// The least number.
        least: u64,
        /// The greatest number.
        most: u64,
    },
    /// The round-robin class has one quantum for the machine.
    #[error("the round-robin class has one quantum for the whole machine: leave --all out")]
    AllRoundRobin,
    /// The command would run in a class that has no slices.
    #[error(
        "the command would run in the class {0}, which has no slices: start it as an ordinary task \
         (`chrt --other 0`), or set the machine's slice with --all"
    )]
    NotFair(&'static str),
    /// The kernel has no slices of single tasks.
    #[error(
        "this kernel has no slices of single tasks (Linux 6.12 and later do): \
         set the machine's with --all, as root"
    )]
    NoSlices,
    /// The kernel gives a task another slice than it asks for.
    #[error(
        "a single task's slice of {asked_us} us is {given_us} us to this kernel, which gives 100 to 100000: \
         ask for that, or set the machine's slice with --all, as root"
    )]
    OtherSlice {
        /// The slice that was asked for, us.
        asked_us: u64,
        /// The slice that the kernel gives, us.
        given_us: u64,
    },
    /// A slice would end only at a tick that comes later.
    #[error(
        "a slice of {quantum_us} us would end at this kernel's next tick, one every {tick_us} us: {why}; \
         ask for {tick_us} us or more"
    )]
    Tick {
        /// The quantum that was asked for, us.
        quantum_us: u64,
        /// The time between ticks, us.
        tick_us: u64,
        /// Why slices do not end between ticks.
        why: String,
    },
    /// The kernel's tick cannot be changed.
    #[error(
        "this kernel ticks {own_hz} times a second, which was fixed when it was built: {}, or boot a kernel \
         built by `spry lab kernel build --hz` (no part of Spry changes the tick of a running kernel yet)",
        instead(*.asked_hz)
    )]
    FixedTick {
        /// The tick that was asked for, Hz.
        asked_hz: u64,
        /// The kernel's own tick, Hz.
        own_hz: u64,
    },
    /// A sched_ext scheduler schedules all fair tasks.
    #[error(
        "the sched_ext scheduler {0} schedules all ordinary tasks, by slices of its own: \
         end it first (`spry sched stop`, if it is Spry's)"
    )]
    SchedExt(String),
    /// The kernel's quantum of the round-robin class is a number of ms.
    #[error("the round-robin quantum of this kernel is whole milliseconds: ask for 1000, 2000 us and so on")]
    WholeMs,
    /// The kernel rounds the quantum to another value.
    #[error(
        "the round-robin quantum of {asked_us} us is {given_us} us to this kernel, which counts ticks of \
         {tick_us} us: ask for a multiple of that"
    )]
    WholeTicks {
        /// The quantum that was asked for, us.
        asked_us: u64,
        /// The quantum to which the kernel rounds it, us.
        given_us: u64,
        /// The time between ticks, us.
        tick_us: u64,
    },
    /// The kernel refuses a setting.
    #[error("cannot set {} to {}: {error}{}", .setting.path, .setting.value, hint(.error))]
    Setting {
        /// The setting that was refused.
        setting: Setting,
        /// The error of the kernel.
        error: io::Error,
    },
    /// The kernel keeps another value than was written.
    #[error("{} is {} after {} was written into it; it is what it was again", .now.path, .now.value, .asked.value)]
    Kept {
        /// The setting that was written.
        asked: Setting,
        /// The setting that was read back.
        now: Setting,
    },
    /// A file of the book could not be made, read or written.
    #[error("{}: {error}", path.display())]
    Book {
        /// The path of the file.
        path: PathBuf,
        /// The error of the kernel.
        error: io::Error,
    },
    /// No process has the number.
    #[error("there is no process {tgid}")]
    NoProcess {
        /// The number that was given.
        tgid: u32,
    },
    /// The timer slack of a process may not be read or set.
    #[error("the timer slack of process {tgid}: {error}{}", slack_hint(.error))]
    Slack {
        /// The number of the process.
        tgid: u32,
        /// The error of the kernel.
        error: io::Error,
    },
    /// A process starts threads faster than their timer slack can be set.
    #[error(
        "process {tgid} starts threads faster than their timer slack can be set, and some still have the old \
         one: stop it (`kill -STOP {tgid}`), set the slack, and let it go on (`kill -CONT {tgid}`)"
    )]
    RestlessThreads {
        /// The number of the process.
        tgid: u32,
    },
    /// The kernel refuses a request that is not about a file.
    #[error("{what}: {error}")]
    Kernel {
        /// The purpose of the request.
        what: &'static str,
        /// The error of the kernel.
        error: io::Error,
    },
}

impl TuneError {
    /// Whether the arguments are invalid on every kernel.
    pub fn is_wrong_usage(&self) -> bool {
        matches!(self, TuneError::Limit { .. } | TuneError::AllRoundRobin)
    }
}

/// The advice for a user that asked for a tick of this rate: slices of that length.
fn instead(hz: u64) -> String {
    let quantum_us = 1_000_000 / hz;
    let all = if quantum_us < 100 { " --all" } else { "" };
    format!("ask for slices of that length, which need no tick (--quantum-us {quantum_us}{all})")
}

/// The advice for a setting that the kernel refuses.
pub(crate) fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (it needs root, and a kernel that is not locked down)",
        io::ErrorKind::NotFound => {
            " (this kernel has no such setting, or debugfs is not mounted: \
             `mount -t debugfs none /sys/kernel/debug`)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (the file system is mounted for reading alone)",
        _ => "",
    }
}

/// What can be done about a timer slack that may not be read or set.
fn slack_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (a running process' slack needs root; `spry slack --overshoot TIME -- CMD` needs none)"
        }
        _ => "",
    }
}

/// Makes an error from the kernel's error about a file of the book.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> TuneError + use<> {
    let path = path.to_owned();
    move |error| TuneError::Book { path, error }
}

/// Makes an error from the kernel's error about a request.
pub(crate) fn of(what: &'static str) -> impl FnOnce(io::Error) -> TuneError {
    move |error| TuneError::Kernel { what, error }
}

/// Makes an error from the kernel's error about a setting.
pub(crate) fn refused(setting: &Setting) -> impl FnOnce(io::Error) -> TuneError + use<> {
    let setting = setting.clone();
    move |error| TuneError::Setting { setting, error }
}
