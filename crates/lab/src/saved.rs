//! Machines that were booted once and saved: kept in the cache within bounds, found again by what they were made of.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Lock};
use crate::doctor::free_mib;
use crate::error::{LabError, at};
use crate::progress::{Event, Progress, Stop};
use crate::vm::Hardware;

/// Where they are in the cache.
const HOME: &str = "saved";
/// What all of them may take, MiB. A machine takes what its guest has touched: 150 MiB and its image.
pub(crate) const BOUND_MIB: u64 = 8 * 1024;
/// Space that must be left for results while a machine boots, MiB.
const SPARE_MIB: u64 = 256;
/// The file by which a machine says what it is. Its time of modification is that of the latest use.
const ABOUT: &str = "machine.json";
/// Held by each use while the emulator opens the files.
const LOCK: &str = "lock";

/// A saved machine, as `spry lab machines` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMachine {
    /// The release of its kernel.
    pub kernel: String,
    /// How many CPUs it has.
    pub cpus: u32,
    /// An instruction takes 2 to the power of this, nanoseconds.
    pub shift: u8,
    /// The size of its memory, MiB.
    pub memory_mib: u64,
    /// The packages that its image holds.
    pub packages: usize,
    /// What its kernel was told beyond the lab's own parameters.
    pub cmdline: String,
}

/// A saved machine that is in use: it is not removed meanwhile.
#[derive(Debug)]
pub(crate) struct InUse {
    pub(crate) directory: PathBuf,
    _lock: Lock,
}

/// The machine of this hardware, booted and saved if it is not there yet. `inputs` are the hashes of its files.
pub(crate) fn prepare(
    cache: &Cache,
    hardware: &Hardware<'_>,
    inputs: &[&str],
    about: &SavedMachine,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<InUse, LabError> {
    let key = hardware.key(inputs);
    loop {
        let directory = cache.entry(HOME, &key, stop, |directory| {
            make_room(cache, hardware.whole_memory_mib() + SPARE_MIB)?;
            progress.tell(Event::Step("booting a machine to begin again from"));
            fs::write(directory.join(ABOUT), text_of(about)).map_err(at(directory))?;
            hardware.save(directory, stop)
        })?;
        // It may have been removed since, to make room for another one: then it is booted anew.
        let Ok(lock) = Lock::shared(&directory.join(LOCK)) else { continue };
        let Ok(file) = File::options().append(true).open(directory.join(ABOUT)) else { continue };
        let now = FileTimes::new().set_modified(SystemTime::now());
        file.set_times(now).map_err(at(&directory))?;
        return Ok(InUse { directory, _lock: lock });
    }
}

fn text_of(about: &SavedMachine) -> String {
    serde_json::to_string(about).expect("texts and numbers can be written")
}

/// A saved machine in the cache.
struct Kept {
    directory: PathBuf,
    used: SystemTime,
    mib: u64,
}

fn kept(cache: &Cache) -> Vec<Kept> {
    let entries = fs::read_dir(cache.root().join(HOME)).into_iter().flatten().flatten();
    let mut found: Vec<Kept> = entries
        .filter_map(|entry| {
            let directory = entry.path();
            let used = fs::metadata(directory.join(ABOUT)).and_then(|about| about.modified()).ok()?;
            Some(Kept { mib: taken_mib(&directory), used, directory })
        })
        .collect();
    found.sort_by(|a, b| (a.used, &a.directory).cmp(&(b.used, &b.directory)));
    found
}

/// What a directory's files take of the disk, MiB: their memory has holes.
fn taken_mib(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum::<u64>() >> 20
}

/// Removes machines, those first that were not used for longest, until the rest keeps to the bound and another one has
/// room on the disk.
fn make_room(cache: &Cache, needed_mib: u64) -> Result<(), LabError> {
    let kept = kept(cache);
    let mut taken_mib: u64 = kept.iter().map(|kept| kept.mib).sum();
    for old in &kept {
        let is_enough = taken_mib + needed_mib <= BOUND_MIB && free_mib(cache.root()) >= needed_mib;
        if is_enough {
            break;
        }
        // Whoever uses it holds the lock.
        if Lock::alone(&old.directory.join(LOCK))?.is_some() {
            cache.remove(&old.directory)?;
            taken_mib -= old.mib;
        }
    }
    if free_mib(cache.root()) < needed_mib {
        return Err(LabError::DiskFull { path: cache.root().join(HOME), needed_mib });
    }
    Ok(())
}

/// The machines that the cache holds, and what each takes of the disk in MiB, the latest used last.
pub fn saved_machines(cache: &Cache) -> Vec<(SavedMachine, u64)> {
    let read = |kept: Kept| {
        let text = fs::read_to_string(kept.directory.join(ABOUT)).ok()?;
        Some((serde_json::from_str(&text).ok()?, kept.mib))
    };
    kept(cache).into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn saved(cache: &Cache, name: &str, age_s: u64) -> PathBuf {
        let directory = cache.root().join(HOME).join(name);
        fs::create_dir_all(&directory).expect("it can be made");
        let about = File::create(directory.join(ABOUT)).expect("it can be made");
        let used = SystemTime::now() - Duration::from_secs(age_s);
        about.set_times(FileTimes::new().set_modified(used)).expect("times can be set");
        directory
    }

    #[test]
    fn the_machine_that_was_not_used_for_longest_goes_first_and_one_in_use_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(root.path()).expect("a cache");
        let [oldest, old, new] =
            [("a", 300), ("b", 200), ("c", 100)].map(|(name, age)| saved(&cache, name, age));
        let in_use = Lock::shared(&oldest.join(LOCK)).expect("nobody has it alone");
        let names = |kept: Vec<Kept>| kept.into_iter().map(|kept| kept.directory).collect::<Vec<_>>();
        assert_eq!(names(kept(&cache)), [oldest.clone(), old.clone(), new.clone()]);
        // More than there may ever be: everything goes that may.
        let full = make_room(&cache, u64::MAX >> 1);
        assert!(matches!(full, Err(LabError::DiskFull { .. })));
        assert!(oldest.exists() && !old.exists() && !new.exists());
        drop(in_use);
        assert!(make_room(&cache, 1).is_ok() && oldest.exists(), "there is room");
    }
}
