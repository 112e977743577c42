//! A process and its descendants: who they are, and the CPU time they used.

use std::collections::BTreeMap;
use std::fs;
use std::io;

/// The parents of all processes (`tgid` to `tgid`).
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let tgids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    tgids.filter_map(|tgid| Some((tgid, parent(tgid)?))).collect()
}

fn parent(tgid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{tgid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state and the parent follow it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether `tgid` is `root` or descends from it.
#[must_use]
pub fn descends(tgid: u32, root: u32) -> bool {
    let mut now = Some(tgid);
    while let Some(tgid) = now.filter(|&tgid| tgid > 1) {
        if tgid == root {
            return true;
        }
        now = parent(tgid);
    }
    false
}

/// A process and all that descend from it, in order of their ids.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let parents = parents();
    let belongs = |tgid: u32| {
        let mut now = Some(tgid);
        // A chain is never longer than there are processes, whatever changed while they were listed.
        for _ in 0..=parents.len() {
            match now {
                Some(tgid) if tgid == root => return true,
                Some(tgid) => now = parents.get(&tgid).copied(),
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|&tgid| belongs(tgid)).collect()
}

/// The CPU time of a process and its descendants so far, in nanoseconds, for each that lives.
#[must_use]
pub fn cpu_ns(root: u32) -> BTreeMap<u32, u64> {
    descendants(root).into_iter().filter_map(|tgid| Some((tgid, process_cpu_ns(tgid)?))).collect()
}

/// The CPU time that was used between two readings of [`cpu_ns`], in nanoseconds, by those that lived at the second.
#[must_use]
pub fn cpu_between_ns(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> u64 {
    after.iter().map(|(tgid, ns)| ns.saturating_sub(before.get(tgid).copied().unwrap_or(0))).sum()
}

fn process_cpu_ns(tgid: u32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let tgid = libc::pid_t::try_from(tgid).ok()?;
    // SAFETY: both results are ours and live.
    let read = unsafe {
        libc::clock_getcpuclockid(tgid, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    read.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The size of the kernel's first `struct sched_attr`; a kernel that knows a longer one takes this as well.
const ATTRIBUTES_SIZE: u32 = 48;

/// The kernel's `struct sched_attr`, read and handed on whole.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Gives a process and its descendants, thread by thread, the scheduling class of the calling thread. Those that end meanwhile are passed over.
///
/// # Errors
/// If the kernel refuses.
pub fn adopt_class(root: u32) -> io::Result<()> {
    let mut own = Attributes::default();
    // SAFETY: 0 is the calling thread; the structure is ours and as long as is said.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, ATTRIBUTES_SIZE, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    own.size = ATTRIBUTES_SIZE;
    for tid in descendants(root).into_iter().flat_map(threads) {
        // SAFETY: the structure is ours, lives, and says its own size.
        if unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const own, 0) } != 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::ESRCH) {
                return Err(error);
            }
        }
    }
    Ok(())
}

fn threads(tgid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{tgid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}
