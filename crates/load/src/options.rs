//! What loads may take, and what of it each of them gets.

use std::env;
use std::ffi::CString;
use std::fs;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::cpus::CpuList;
use crate::error::{LoadError, at, checked, of};
use crate::suite::Load;

const MIB: u64 = 1 << 20;
/// The most memory and disk space that loads take unless they are allowed more, bytes.
const DEFAULT_BYTES: u64 = 512 * MIB;
/// The most processes of a kind that a load has, however many CPUs there are.
const WORKERS_MAX: u64 = 8;

/// How loads run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory below which they make their own; the system's for temporary files if there is none.
    pub dir: Option<PathBuf>,
    /// What they may take of memory in all, bytes.
    pub memory_bytes: u64,
    /// What they may take of disk space in all, bytes.
    pub disk_bytes: u64,
    /// The CPUs that they run on; all of the caller's if there are none.
    pub cpus: Option<CpuList>,
    /// Their nice value, -20 to 19; the caller's if there is none.
    pub nice: Option<i32>,
    /// The source that is compiled: a directory, a directory of a source package, or a file that tar reads.
    pub source: Option<PathBuf>,
    /// The directory where it is written down what is to be cleaned up.
    pub state: PathBuf,
}

impl Options {
    /// The defaults: a quarter of the memory, at most 512 MiB; 512 MiB of disk; the caller's CPUs and nice value.
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

    /// The directory below which loads make their own, with its real name.
    pub(crate) fn home(&self) -> Result<PathBuf, LoadError> {
        let home = self.dir.clone().unwrap_or_else(env::temp_dir);
        let home = home.canonicalize().map_err(at(&home))?;
        let free = free_bytes(&home).map_err(at(&home))?;
        if free < self.disk_bytes {
            let (free_mib, wanted_mib) = (free / MIB, self.disk_bytes / MIB);
            return Err(LoadError::NoSpace { path: home, free_mib, wanted_mib });
        }
        Ok(home)
    }

    /// Each load's share, in their order.
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

/// What a load may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Memory, bytes.
    pub(crate) memory_bytes: u64,
    /// Disk space, bytes.
    pub(crate) disk_bytes: u64,
    /// How many of each of its processes there are: one a CPU, as far as memory and disk space go.
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

    /// What each worker may take of memory and disk space, bytes.
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

/// What this user may still write below a directory, bytes.
fn free_bytes(path: &Path) -> std::io::Result<u64> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the result is plain numbers, for which zero is a value.
    let mut found: libc::statvfs = unsafe { mem::zeroed() };
    // SAFETY: the name ends with 0, and the result is ours.
    checked(unsafe { libc::statvfs(name.as_ptr(), &raw mut found) })?;
    Ok(found.f_bavail * found.f_frsize)
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
        // What `all` stands for on a kernel with NFS.
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
