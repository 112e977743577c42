//! What can go wrong with loads, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why loads could not be started, or ended too soon.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no load of this name.
    #[error("there is no load `{name}`: the loads are {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Every name there is.
        known: String,
    },
    /// A load lacks what it needs on this machine.
    #[error("{load} cannot run here: {lack}")]
    Lacks {
        /// Its name.
        load: &'static str,
        /// What it lacks, and what to do about that.
        lack: String,
    },
    /// The memory or the disk space that loads may take is too little for them.
    #[error(
        "{load} needs at least {needed_mib} MiB of {what} and would get {share_mib}: allow more (--{option}), or run fewer loads"
    )]
    TooLittle {
        /// The load's name.
        load: &'static str,
        /// `memory` or `disk space`.
        what: &'static str,
        /// The option that sets it.
        option: &'static str,
        /// What the load needs, MiB.
        needed_mib: u64,
        /// What would be its share, MiB.
        share_mib: u64,
    },
    /// The disk has less free space than the loads may take.
    #[error("{} has {free_mib} MiB of free space, and the loads may take {wanted_mib}: name another directory (--dir), or allow less (--disk)", path.display())]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// What is free there, MiB.
        free_mib: u64,
        /// What the loads may take, MiB.
        wanted_mib: u64,
    },
    /// A list of CPUs cannot be read, or names one that is not there.
    #[error("{0}")]
    Cpus(String),
    /// The loads could not be confined or started.
    #[error("{0}")]
    Start(String),
    /// A load has ended by itself.
    #[error("{load} has ended too soon: {why}")]
    Ended {
        /// Its name.
        load: String,
        /// Its last words.
        why: String,
    },
    /// Somebody killed the loads.
    #[error("the loads were killed from outside; nothing of them is left")]
    Killed,
    /// Somebody killed the guardian.
    #[error("the loads' guardian was killed, and the loads with it; nothing of them is left")]
    GuardianKilled,
    /// The loads were told to end and did not.
    #[error("the loads did not end when told to, and were killed; nothing of them is left")]
    Stuck,
    /// A file could not be made, read or removed.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something that is no file.
    #[error("{what}: {source}")]
    Kernel {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// Makes an error of what the kernel says of a file.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = path.to_owned();
    move |source| LoadError::File { path, source }
}

/// Makes an error of what the kernel says of a request.
pub(crate) fn of(what: &'static str) -> impl FnOnce(io::Error) -> LoadError {
    move |source| LoadError::Kernel { what, source }
}

/// The result of a system call that returns -1 where it fails.
pub(crate) fn checked(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
