//! What the examples that load the machine share: processes, and memory that these have in common.
// Each example is a program of its own and uses its part of it.
#![allow(dead_code)]

use std::io;
use std::ptr;

use anyhow::{Result, ensure};

/// Forks a process that does something until it is done, or killed, or its parent is gone.
pub fn start(work: impl FnOnce()) -> Result<libc::pid_t> {
    // SAFETY: the child does only what is given, none of which takes a lock that another thread may hold.
    let tgid = unsafe { libc::fork() };
    ensure!(tgid >= 0, "fork: {}", io::Error::last_os_error());
    if tgid == 0 {
        // SAFETY: numbers only.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        work();
        // SAFETY: ends the child, without what its parent registered for its own end.
        unsafe { libc::_exit(0) };
    }
    Ok(tgid)
}

/// Waits for a child's end.
pub fn reap(tgid: libc::pid_t) {
    // SAFETY: a child of this process; its status is of no interest.
    unsafe { libc::waitpid(tgid, ptr::null_mut(), 0) };
}

/// Names the calling process.
pub fn set_name(name: &std::ffi::CStr) {
    // SAFETY: a string that ends in a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Makes the calling thread real-time.
pub fn become_real_time(policy: i32, priority: i32) -> Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure outlives the call.
    let done = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    ensure!(done == 0, io::Error::last_os_error());
    Ok(())
}

/// Memory that forked processes share, of zeros, for what may be all zeros and changes by atomics alone.
pub fn shared<T>(count: usize) -> Result<&'static [T]> {
    let bytes = count * size_of::<T>();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which the kernel fills with zeros.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    ensure!(start != libc::MAP_FAILED, io::Error::last_os_error());
    // SAFETY: it has that size, is never unmapped, and the callers' types are atomics, valid whatever their bytes.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) })
}
