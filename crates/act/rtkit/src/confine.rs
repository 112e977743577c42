//! Drops this process' privileges before it reads a byte from the bus.

use std::io;

use anyhow::Result;

/// The memory that the process may use, bytes.
const MEMORY: u64 = 64 << 20;
const DESCRIPTORS: u64 = 16;
/// The further system calls that it needs to answer.
const CALLS: [libc::c_long; 2] = [libc::SYS_sendmsg, libc::SYS_writev];

/// Makes this the user of the process, which has no privilege of root any more.
///
/// # Errors
/// If the kernel refuses.
pub fn become_user(uid: u32, gid: u32) -> Result<()> {
    spry_confine::become_user(c"spry-rtkit", uid, gid)?;
    spry_confine::limit(MEMORY, DESCRIPTORS)?;
    Ok(())
}

/// Allows only the system calls that are needed to answer. Must be called after the connection is made.
///
/// # Errors
/// If the kernel has no system call filters.
pub fn only_answer() -> io::Result<()> {
    spry_confine::allow_only(&CALLS)
}
