//! The errors of loads. The message names a remedy, if the user has one.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why loads could not be started, or ended too soon.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no load of this name.
    #[error("there is no load `{name}`: the loads are {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all loads.
        known: String,
    },
    /// This machine lacks a part that a load needs.
    #[error("{load} cannot run here: {lack}")]
    Lacks {
        /// The load's name.
        load: &'static str,
        /// The part that the load lacks, and the user's remedy.
        lack: String,
    },
    /// The memory or the disk space that loads may take is too little for them.
    #[error(
        "{load} needs at least {needed_mib} MiB of {what} and would get {share_mib}: \
         allow more (--{option}), or run fewer loads"
    )]
    TooLittle {
        /// The load's name.
        load: &'static str,
        /// The kind of space: `memory` or `disk space`.
        what: &'static str,
        /// The option that sets the amount.
        option: &'static str,
        /// The space that the load needs, MiB.
        needed_mib: u64,
        /// The space that the load would get as its share, MiB.
        share_mib: u64,
    },
    /// The disk has less free space than the loads may take.
    #[error("{} has {free_mib} MiB of free space, and the loads may take {wanted_mib}: \
             name another directory (--dir), or allow less (--disk)", path.display())]
    NoSpace {
        /// The path of the directory.
        path: PathBuf,
        /// The free space of that disk, MiB.
        free_mib: u64,
        /// The space that the loads may take, MiB.
        wanted_mib: u64,
    },
    /// A list of CPUs cannot be read, or names a CPU that does not exist.
    #[error("{0}")]
    Cpus(String),
    /// The loads could not be confined or started.
    #[error("{0}")]
    Start(String),
    /// A load has ended by itself.
    #[error("{load} has ended too soon: {why}")]
    Ended {
        /// The load's name.
        load: String,
        /// The end of the load's output.
        why: String,
    },
    /// A process outside killed the loads.
    #[error("the loads were killed from outside; nothing of them is left")]
    Killed,
    /// A process outside killed the guardian.
    #[error("the loads' guardian was killed, and the loads with it; nothing of them is left")]
    GuardianKilled,
    /// The loads were requested to end and did not.
    #[error("the loads did not end when told to, and were killed; nothing of them is left")]
    Stuck,
    /// A file could not be made, read or removed.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },
    /// The kernel refused a request that is not about a file.
    #[error("{what}: {source}")]
    Kernel {
        /// The purpose of the request.
        what: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },
}

/// Makes an error from the kernel's error about a file.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> LoadError + use<> {
    let path = path.to_owned();
    move |source| LoadError::File { path, source }
}

/// Makes an error from the kernel's error about a request.
pub(crate) fn of(what: &'static str) -> impl FnOnce(io::Error) -> LoadError {
    move |source| LoadError::Kernel { what, source }
}
