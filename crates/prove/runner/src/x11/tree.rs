//! A process and its descendants: their ids, and the CPU time that they used.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use spry_sys::attributes::Attributes;
use spry_sys::clock::process_cpu_ns;
use spry_sys::process;

/// The parent of each process, as a map from `tgid` to `tgid`.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let tgids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    tgids.filter_map(|tgid| Some((tgid, parent(tgid)?))).collect()
}

fn parent(tgid: u32) -> Option<u32> {
    let stat = fs::read(format!("/proc/{tgid}/stat")).ok()?;
    process::parent_and_begin(&stat).map(|(parent, _)| parent)
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

/// The ids of a process and of all processes that descend from it, in order.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let parents = parents();
    let belongs = |tgid: u32| {
        let mut now = Some(tgid);
        // A chain of parents is never longer than the number of processes, even if processes changed while
        // they were listed.
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

/// The CPU time that a process and each of its running descendants used so far, ns.
#[must_use]
pub fn cpu_ns(root: u32) -> BTreeMap<u32, u64> {
    descendants(root).into_iter().filter_map(|tgid| Some((tgid, process_cpu_ns(tgid).ok()?))).collect()
}

/// The CPU time that was used between two readings of [`cpu_ns`], in nanoseconds. Only processes that existed
/// at the second reading count.
#[must_use]
pub fn cpu_between_ns(before: &BTreeMap<u32, u64>, after: &BTreeMap<u32, u64>) -> u64 {
    after.iter().map(|(tgid, ns)| ns.saturating_sub(before.get(tgid).copied().unwrap_or(0))).sum()
}

/// Gives all threads of a process and of its descendants the scheduling class of the calling thread. Threads
/// that end meanwhile are skipped.
///
/// # Errors
/// If the kernel refuses.
pub fn adopt_class(root: u32) -> io::Result<()> {
    let own = Attributes::of(0)?;
    for tid in descendants(root).into_iter().flat_map(threads) {
        own.give(tid).or_else(|error| if process::is_gone(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

fn threads(tgid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{tgid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}
