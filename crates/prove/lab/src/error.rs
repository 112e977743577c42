//! The errors of the lab. Each message describes what the user can do about it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why the lab could not prepare a machine or run a job.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// This machine does not have a program that the lab needs.
    #[error("{program} is missing: install it with `apt-get install {package}`")]
    Missing {
        /// The missing program.
        program: String,
        /// The distribution's package that holds it.
        package: String,
    },
    /// One of Spry's own programs is not where it belongs.
    #[error(
        "{0} is missing: build the whole workspace (`cargo build --release`), which puts it beside `spry`"
    )]
    OwnProgram(PathBuf),
    /// No archive of the distribution's packages is configured.
    #[error(
        "no Debian mirror in /etc/apt/sources.list or /etc/apt/sources.list.d: name one with SPRY_MIRROR=URL"
    )]
    NoMirror,
    /// The environment variable for unused bytes is not a number, or is too large.
    #[error(
        "SPRY_LAB_SHAKE={0}: this is the number of unused bytes that each guest gets, such as 4099; \
         at most {most}",
        most = crate::lab::SHAKE_MOST_BYTES
    )]
    Shake(String),
    /// Packages, or their lists, could not be fetched.
    #[error(
        "could not fetch {what}: check the network and the archive ({archive}), then try again\n{detail}"
    )]
    NotFetched {
        /// The files that were to be fetched.
        what: &'static str,
        /// The address of the archive.
        archive: String,
        /// The end of apt's messages.
        detail: String,
    },
    /// The archive's signatures cannot be checked.
    #[error(
        "the keys on this machine do not verify the {suite} suite: bring them up to date with \
         `apt-get install debian-archive-keyring`\n{detail}"
    )]
    Keyring {
        /// The name of the suite.
        suite: String,
        /// The end of apt's messages.
        detail: String,
    },
    /// The archive has no such package.
    #[error("the {suite} suite has no package {package}: `apt-cache search` knows names")]
    NoPackage {
        /// The name of the suite.
        suite: String,
        /// The name of the missing package.
        package: String,
    },
    /// The kernel is not the requested kernel.
    #[error("{0}")]
    Kernel(String),
    /// A binary cannot run in the image.
    #[error("{}: {problem}", binary.display())]
    Binary {
        /// The path of the binary.
        binary: PathBuf,
        /// The part that the image lacks, and the user's remedy.
        problem: String,
    },
    /// A program of this machine failed.
    #[error("{command} failed ({status})\n{stderr}")]
    Tool {
        /// The command that was run.
        command: String,
        /// How the program ended.
        status: String,
        /// The last lines of the program's standard error.
        stderr: String,
    },
    /// QEMU ended before the guest did.
    #[error("QEMU ended ({status}) before the guest was through\n{stderr}")]
    Qemu {
        /// How QEMU ended.
        status: String,
        /// The last lines of QEMU's standard error.
        stderr: String,
    },
    /// The guest's kernel panicked.
    #[error("the guest's kernel panicked: {reason}\n{log}")]
    Panic {
        /// The line of the panic in the console.
        reason: String,
        /// The last lines of the guest's console.
        log: String,
    },
    /// The guest ended without its results.
    #[error("the guest ended without results, at the stage `{stage}`\n{log}")]
    GuestDied {
        /// The stage that the guest had reached.
        stage: String,
        /// The last lines of the guest's console.
        log: String,
    },
    /// The guest or QEMU took longer than allowed.
    #[error("{what} did not end within {limit_s} s, at the stage `{stage}`\n{log}")]
    TimedOut {
        /// The part that took too long, and the clock of the limit.
        what: String,
        /// The limit, in seconds of the clock that `what` names.
        limit_s: u64,
        /// The stage that the guest had reached.
        stage: String,
        /// The last lines of the guest's console.
        log: String,
    },
    /// The scheduler under test did not load.
    #[error("the scheduler {name} did not load: {reason}")]
    SchedulerFailed {
        /// The scheduler's name.
        name: String,
        /// The end of the scheduler's output and the kernel's messages.
        reason: String,
    },
    /// The kernel removed the scheduler under test.
    #[error("the kernel ejected the scheduler {name}: {reason}")]
    SchedulerEjected {
        /// The scheduler's name.
        name: String,
        /// The reason that the kernel gave.
        reason: String,
    },
    /// The guest's kernel refused a setting.
    #[error("the guest's kernel does not take the setting {path} = {value}: {reason}")]
    Setting {
        /// The file of the setting.
        path: String,
        /// The value that was to be written.
        value: String,
        /// The error that the kernel returned.
        reason: String,
    },
    /// The guest failed for another reason.
    #[error("in the guest: {0}")]
    Guest(String),
    /// The disk is full.
    #[error("the disk is full: no space left for {}{}: free some, or set \
             SPRY_CACHE to another disk", path.display(), needed(*needed_mib))]
    DiskFull {
        /// A path on the disk that is full.
        path: PathBuf,
        /// The space that is needed, MiB; 0 if unknown.
        needed_mib: u64,
    },
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
    /// A file of the lab's own could not be read or written.
    #[error("{}: {reason}{}", path.display(), advice(reason))]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        reason: io::Error,
    },
}

fn needed(mib: u64) -> String {
    if mib == 0 { String::new() } else { format!(" ({mib} MiB needed)") }
}

/// Adds the path to an I/O error. Returns [`LabError::DiskFull`] if the disk is full.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> LabError + '_ {
    move |source| {
        if source.kind() == io::ErrorKind::StorageFull {
            return LabError::DiskFull { path: path.to_owned(), needed_mib: 0 };
        }
        LabError::Io { path: path.to_owned(), reason: source }
    }
}

/// The advice for a user without permission to write to a file.
fn advice(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": set SPRY_CACHE to a directory that you may write to"
        }
        _ => "",
    }
}

/// The last `lines` lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
