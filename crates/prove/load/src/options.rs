//! The memory and disk space that loads may take, and each load's share of it.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::cpus::CpuList;
use crate::error::{LoadError, at, of};
use crate::suite::Load;

const MIB: u64 = 1 << 20;
/// The memory, and the disk space, that loads may take unless the user allows more, bytes.
const DEFAULT_BYTES: u64 = 512 * MIB;
/// The greatest number of processes of one kind that a load has, on any number of CPUs.
const WORKERS_MAX: u64 = 8;

/// The place, the limits and the CPUs of the loads.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory below which the loads make their own directory; `None`: the system's directory for
    /// temporary files.
    pub dir: Option<PathBuf>,
    /// How much memory all loads may take together, bytes.
    pub memory_bytes: u64,
    /// How much disk space all loads may take together, bytes.
    pub disk_bytes: u64,
    /// The CPUs on which the loads run; `None`: all CPUs of the caller.
    pub cpus: Option<CpuList>,
    /// The nice value of the loads, -20 to 19; `None`: the caller's.
    pub nice: Option<i32>,
    /// The source that is compiled: a directory, the directory of a source package, or an archive
    /// that tar reads.
    pub source: Option<PathBuf>,
    /// The directory of the journals, which name the files that must be removed.
    pub state: PathBuf,
}

impl Options {
    /// The default options: a quarter of the memory, but at most 512 MiB; 512 MiB of disk space; the CPUs and
    /// the nice value of the caller.
    pub fn new(state: PathBuf) -> Self {
        Self {
            dir: None,
            memory_bytes: (memory_total() / 4).min(DEFAULT_BYTES),
            disk_bytes: DEFAULT_BYTES,
            cpus: None,
            nice: None,
            source: None,
            state,
        }
    }

    /// The real path of the directory below which the loads make their own directory.
    pub(crate) fn home(&self) -> Result<PathBuf, LoadError> {
        let home = self.dir.clone().unwrap_or_else(env::temp_dir);
        let home = home.canonicalize().map_err(at(&home))?;
        let free = spry_sys::file::free_bytes(&home).map_err(at(&home))?;
        if free < self.disk_bytes {
            let (free_mib, wanted_mib) = (free / MIB, self.disk_bytes / MIB);
            return Err(LoadError::NoSpace { path: home, free_mib, wanted_mib });
        }
        Ok(home)
    }

    /// The share of each load, in the order of the loads.
    pub(crate) fn shares(&self, loads: &[&'static Load]) -> Result<Vec<Share>, LoadError> {
        let cpus = match &self.cpus {
            Some(cpus) => {
                cpus.check()?;
                cpus.count()
            }
            None => CpuList::allowed().map_err(of("asking for this process' CPUs"))?.count(),
        };
        let parts: u64 = loads.iter().map(|load| load.takes().parts).sum();
        let share = |load: &&'static Load| {
            let takes = load.takes();
            let part = |bytes: u64| bytes / parts.max(1) * takes.parts;
            Share::of(load, part(self.memory_bytes), part(self.disk_bytes), cpus as u64)
        };
        loads.iter().map(share).collect()
    }
}

/// The memory, disk space and processes that a load may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The memory that the load may take, bytes.
    pub(crate) memory_bytes: u64,
    /// The disk space that the load may take, bytes.
    pub(crate) disk_bytes: u64,
    /// How many processes of each kind the load has: one for each CPU, if memory and disk space are enough.
    pub(crate) workers: u64,
}

impl Share {
    fn of(load: &'static Load, memory_bytes: u64, disk_bytes: u64, cpus: u64) -> Result<Self, LoadError> {
        let takes = load.takes();
        let too_little = |what, option, needed: u64, share: u64| LoadError::TooLittle {
            load: load.name(),
            what,
            option,
            needed_mib: needed / MIB,
            share_mib: share / MIB,
        };
        if memory_bytes < takes.memory_bytes {
            return Err(too_little("memory", "memory", takes.memory_bytes, memory_bytes));
        }
        if disk_bytes < takes.disk_bytes {
            return Err(too_little("disk space", "disk", takes.disk_bytes, disk_bytes));
        }
        let by_memory = memory_bytes / takes.memory_bytes.max(1);
        let by_disk = disk_bytes.checked_div(takes.disk_bytes).unwrap_or(WORKERS_MAX);
        let workers = cpus.min(WORKERS_MAX).min(by_memory).min(by_disk).max(1);
        Ok(Self { memory_bytes, disk_bytes, workers })
    }

    /// How much memory and disk space each worker may take, bytes.
    pub(crate) fn each(&self) -> (u64, u64) {
        (self.memory_bytes / self.workers, self.disk_bytes / self.workers)
    }
}

/// The machine's memory, bytes.
fn memory_total() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map_or(DEFAULT_BYTES, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(memory_mib: u64, disk_mib: u64) -> Options {
        let options = Options::new(PathBuf::from("/nowhere"));
        Options { memory_bytes: memory_mib * MIB, disk_bytes: disk_mib * MIB, ..options }
    }

    #[test]
    fn shares_add_up_to_no_more_than_is_allowed() {
        // The loads that `all` selects on a kernel with NFS.
        let loads: Vec<&'static Load> =
            Load::all().iter().filter(|load| load.name() != "fuse-compile").collect();
        let shares = options(512, 512).shares(&loads).expect("512 MiB are enough for all");
        assert!(shares.iter().map(|share| share.memory_bytes).sum::<u64>() <= 512 * MIB);
        assert!(shares.iter().map(|share| share.disk_bytes).sum::<u64>() <= 512 * MIB);
        assert!(shares.iter().all(|share| share.workers >= 1));
    }

    #[test]
    fn too_little_memory_or_disk_is_refused_with_what_is_needed() {
        let fs = Load::by_name("fs").expect("there is one");
        let memory = options(1, 512).shares(&[fs]).expect_err("1 MiB is nothing").to_string();
        assert!(memory.contains("--memory"), "{memory}");
        let disk = options(512, 1).shares(&[fs]).expect_err("1 MiB is nothing").to_string();
        assert!(disk.contains("--disk"), "{disk}");
    }

    #[test]
    fn a_disk_without_the_space_is_refused_before_anything_starts() {
        let error = options(512, 1 << 40).home().expect_err("no disk is as large").to_string();
        assert!(error.contains("--disk"), "{error}");
    }
}
