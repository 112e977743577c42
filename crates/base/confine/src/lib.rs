//! Confines a process that reads untrusted data: before it reads, it drops root's privileges and nearly all
//! system calls. `spry-eyes` and `spry-rtkit` are such processes.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::{fs, io};

use anyhow::{Context, Result};
use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Uid, geteuid, set_dumpable_behavior, setrlimit,
};
use rustix::thread::{
    CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_name, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

pub use rustix::thread::CapabilitySet;

/// The system calls that every such process needs to read, to answer and to end. Calls that would make memory
/// executable are not allowed.
const CALLS: [libc::c_long; 19] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_restart_syscall,
    // Newer C libraries block signals while they set random numbers up.
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sendto,
    libc::SYS_sigaltstack,
    libc::SYS_write,
];

/// Gives the process this name. From then on it can gain no privilege, and no other process can inspect it.
/// If root started it, it becomes this user's and keeps no privilege of root. It must have one thread.
///
/// # Errors
/// If the kernel refuses.
pub fn become_user(name: &CStr, uid: u32, gid: u32) -> Result<()> {
    begin(name)?;
    if geteuid().is_root() {
        // The kernel kills the daemon nearly last when memory is short; its children need no such
        // protection.
        fs::write("/proc/self/oom_score_adj", "0").context("standing in line for memory")?;
        set_thread_groups(&[])?;
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_res_gid(gid, gid, gid)?;
        drop_bounds(CapabilitySet::empty())?;
        // When a process changes its user, the kernel makes it dumpable again on systems that are set up for
        // such dumps. So the permitted capabilities are kept until that is undone: a process without these
        // capabilities may not inspect a process that has them.
        set_keep_capabilities(true)?;
        set_thread_res_uid(uid, uid, uid)?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        keep_only(CapabilitySet::empty())?;
    }
    Ok(())
}

/// As [`become_user`], but the process keeps its user, and of root's privileges it keeps `needed`.
///
/// # Errors
/// If the kernel refuses.
pub fn keep_rights(name: &CStr, needed: CapabilitySet) -> Result<()> {
    begin(name)?;
    if geteuid().is_root() {
        drop_bounds(needed)?;
        keep_only(needed)?;
    }
    Ok(())
}

/// Limits the process for good: to this much memory, bytes, and to this many descriptors. It can start no
/// other process and write no file.
///
/// # Errors
/// If the kernel refuses.
pub fn limit(memory: u64, descriptors: u64) -> io::Result<()> {
    let limits = [
        (Resource::As, memory),
        (Resource::Nofile, descriptors),
        (Resource::Nproc, 0),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

fn begin(name: &CStr) -> Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_no_new_privs(true)?;
    // A program that is started through a descriptor would have the descriptor's number as its name.
    set_name(name)?;
    Ok(())
}

/// Takes capabilities out of the bounding set: no program that this process executes can have them.
fn drop_bounds(except: CapabilitySet) -> Result<()> {
    for bit in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if except.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            // The kernel has no capability with this or a higher number.
            Err(rustix::io::Errno::INVAL) => break,
            done => done.context("dropping capabilities")?,
        }
    }
    Ok(())
}

fn keep_only(kept: CapabilitySet) -> Result<()> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).context("giving up capabilities")?;
    clear_ambient_capability_set().context("giving up ambient capabilities")
}

/// Allows all threads of the process only the system calls that every such process needs and these further
/// ones, and memory that is not executable. Another call ends the process.
///
/// # Errors
/// If the kernel has no system call filters.
pub fn allow_only(further: &[libc::c_long]) -> io::Result<()> {
    let mut calls = [&CALLS, further].concat();
    // Only the oldest architectures still have the call `poll`.
    #[cfg(target_arch = "x86_64")]
    calls.push(libc::SYS_poll);
    install(&calls).map_err(io::Error::other)
}

fn install(calls: &[libc::c_long]) -> Result<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls.iter().map(|&call| (call, Vec::new())).collect();
    let only_if = |argument, is: SeccompCmpOp, value: libc::c_int| -> Result<Vec<SeccompRule>> {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value as u64)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, only_if(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?);
    }
    // In builds with assertions the standard library checks that a descriptor is open before it closes it.
    rules.insert(libc::SYS_fcntl, only_if(1, SeccompCmpOp::Eq, libc::F_GETFD)?);
    let architecture = std::env::consts::ARCH.try_into().context("filters of this architecture")?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, architecture)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(())
}
