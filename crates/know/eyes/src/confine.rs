//! The rights that the processes of `spry-eyes` give up: root's rights before they look, and nearly all
//! system calls once they look.

use std::fs::File;
use std::io;

use anyhow::{Context, Result};
use rustix::fs::{FileType, fstat};
use spry_confine::CapabilitySet;

use crate::sys::User;

/// The memory that eyes may use, bytes: the program, its libraries and its model of a display's windows. A
/// server that makes the eyes need more ends them.
const MEMORY: u64 = 256 << 20;
const DESCRIPTORS: u64 = 32;
/// The further system calls that eyes need to look.
const CALLS: [libc::c_long; 2] = [libc::SYS_clock_nanosleep, libc::SYS_gettid];

/// Enters the cgroup that is given by its list of processes (`cgroup.procs`) as standard input, and closes
/// that list. Does nothing if standard input is no regular file.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn enter_cgroup() -> Result<()> {
    let input = std::io::stdin();
    if FileType::from_raw_mode(fstat(&input)?.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    rustix::io::write(&input, b"0").context("entering the cgroup of eyes")?;
    // The list is closed because it keeps the rights of the root process that opened it: data from a server
    // must never be able to use them.
    let nothing = File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(nothing)?)
}

/// Must be called before anything else. From then on the process can gain no privilege, no other process can
/// look into it, and if root started it, it keeps none of root's rights.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn become_user(user: &User) -> Result<()> {
    spry_confine::become_user(c"spry-eyes", user.uid, user.gid)?;
    spry_confine::limit(MEMORY, DESCRIPTORS)?;
    Ok(())
}

/// Keeps only the rights of root that are needed to look into the descriptors of another process.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn only_look_into_processes() -> Result<()> {
    spry_confine::keep_rights(c"spry-eyes", CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH)
}

/// Allows only the system calls that are needed to look. Must be called when all connections exist: nothing
/// can be opened after it.
///
/// # Errors
/// If the kernel has no system call filters.
pub(crate) fn only_look() -> io::Result<()> {
    spry_confine::allow_only(&CALLS)
}
