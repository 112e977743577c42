//! The errors of recording, each with advice.

use std::io;
use std::path::PathBuf;

use crate::wire::Nonsense;

/// The reason why nothing could be recorded, or why a recording ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not load BPF programs.
    #[error("no permission to record: run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_RESOURCE")]
    NoPrivilege,
    /// The kernel has no information on its types (BTF).
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux is missing): boot one built with \
         CONFIG_DEBUG_INFO_BTF=y, as every distribution's kernel is"
    )]
    NoBtf,
    /// The kernel has no BPF, or something forbids it.
    #[error(
        "the kernel refuses BPF programs ({0}): it needs CONFIG_BPF_SYSCALL=y, and lockdown or a container's \
         seccomp filter must allow bpf()"
    )]
    BpfRefused(io::Error),
    /// The programs do not fit this kernel.
    #[error("the kernel does not accept the recorder's programs: {0}; please report this with `uname -a`")]
    Load(String),
    /// The kernel lacks a tracepoint that the recorder needs.
    #[error(
        "this kernel lacks the tracepoint {0}, without which nothing can be recorded: boot a kernel with it"
    )]
    NoTracepoint(&'static str),
    /// There is not enough memory for the rings.
    #[error("no memory for rings of {0} bytes a CPU: ask for smaller ones")]
    NoMemory(usize),
    /// The rings cannot have the size that was asked for.
    #[error("a ring cannot have {0} bytes: give a power of two of at least 131072")]
    RingSize(usize),
    /// The node through which programs make marks cannot be made.
    #[error(
        "cannot make {0} for marks ({1}): leave out the group mark, or make it with `mknod -m 666 {0} c 1 3`"
    )]
    MarkNode(PathBuf, io::Error),
    /// The trace's file cannot be made.
    #[error("cannot write {0}: {1}; choose another place with -o")]
    Create(PathBuf, io::Error),
    /// A ring holds other data than the programs put into it.
    #[error("{ring} ring is corrupt: {nonsense}; what was written before is whole; please report this")]
    Ring {
        /// The ring, in words.
        ring: String,
        /// The number that was found there.
        nonsense: Nonsense,
    },
    /// Writing failed while recording; the part written before is a whole trace.
    #[error("writing the trace failed: {0}; the file reads up to its last whole round")]
    Write(io::Error),
    /// The kept frames could not be written as a trace.
    #[error("cannot make a trace of what was kept in {0}: {1}")]
    Keep(PathBuf, spry_trace::flight::KeepError),
    /// Some other call to the system failed.
    #[error("{what} failed: {source}")]
    System {
        /// The action that failed.
        what: &'static str,
        source: io::Error,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// For `map_err`: a failed call to the system.
pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// The failure that `errno` stands for.
pub(crate) fn last_error(what: &'static str) -> Error {
    Error::System { what, source: io::Error::last_os_error() }
}

/// For `map_err`: a ring, named with its article, holds an invalid number.
pub(crate) fn corrupt(ring: &str) -> impl Fn(Nonsense) -> Error {
    move |nonsense| Error::Ring { ring: ring.to_owned(), nonsense }
}
