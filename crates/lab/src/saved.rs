//! Machines that were booted once and saved: kept in the cache within bounds, found again by what they were made of.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Lock};
use crate::doctor::free_mib;
use crate::error::{LabError, at};
use crate::integrity::{Mark, regular};
use crate::progress::{Event, Progress, Stop};
use crate::vm::{Hardware, SAVED_FILES};

/// Where they are in the cache.
const HOME: &str = "saved";
/// What all of them may take, MiB. A machine takes what its guest has touched: 150 MiB and its image.
pub(crate) const BOUND_MIB: u64 = 8 * 1024;
/// Space that must be left for results while a machine boots, MiB.
const SPARE_MIB: u64 = 256;
/// The file by which a machine says what it is. Its time of modification is that of the latest use.
const ABOUT: &str = "machine.json";
/// How often a machine that is damaged is booted anew.
const REPAIRS: u32 = 1;
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

/// What stands in [`ABOUT`].
#[derive(Serialize, Deserialize)]
struct Entry {
    machine: SavedMachine,
    /// Of [`SAVED_FILES`].
    marks: [Mark; 2],
}

/// A saved machine that is in use: no process removes it meanwhile.
#[derive(Debug)]
pub(crate) struct InUse {
    pub(crate) directory: PathBuf,
    _lock: Lock,
}

/// The machines that were compared with their marks since the lab was opened: one look at each is enough, and
/// takes some tenths of a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookedAt(Arc<Mutex<BTreeSet<PathBuf>>>);

impl LookedAt {
    fn set(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine of this hardware, booted and saved if it is not there yet. `inputs` are the hashes of its files.
pub(crate) fn prepare(
    cache: &Cache,
    looked_at: &LookedAt,
    hardware: &Hardware<'_>,
    inputs: &[&str],
    about: &SavedMachine,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<InUse, LabError> {
    let key = hardware.key(inputs);
    let mut damaged = 0;
    loop {
        if stop.is_requested() {
            return Err(LabError::Interrupted);
        }
        let directory = cache.entry(HOME, &key, stop, |directory| {
            make_room(cache, hardware.whole_memory_mib() + SPARE_MIB)?;
            progress.tell(Event::Step("booting a machine to begin again from"));
            hardware.save(directory, stop)?;
            let marks = marks(directory).map_err(at(directory))?;
            let entry = Entry { machine: about.clone(), marks };
            let text = serde_json::to_string(&entry).expect("texts and numbers can be written");
            fs::write(directory.join(ABOUT), text).map_err(at(directory))
        })?;
        match begin_use(&directory, looked_at) {
            Ok(lock) => return Ok(InUse { directory, _lock: lock }),
            Err(error) if is_forbidden(&error) => return Err(at(&directory)(error)),
            // It has been removed since, to make room for another one: then it is booted anew.
            Err(_) if !directory.exists() => {}
            Err(error) if damaged == REPAIRS => return Err(at(&directory)(error)),
            Err(_) => {
                damaged += 1;
                progress.tell(Event::Step("a saved machine is damaged; it is booted anew"));
                cache.remove(&directory)?;
            }
        }
    }
}

/// Holds a machine that is as it was saved, so that no process removes it.
fn begin_use(directory: &Path, looked_at: &LookedAt) -> io::Result<Lock> {
    let lock = Lock::shared(&directory.join(LOCK))?;
    let path = directory.join(ABOUT);
    let file = regular(&path, File::options().read(true).append(true))?;
    let entry: Entry = serde_json::from_reader(BufReader::new(&file))?;
    if !looked_at.set().contains(directory) {
        if entry.marks != marks(directory)? {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is not as it was saved"));
        }
        looked_at.set().insert(directory.to_owned());
    }
    file.set_times(FileTimes::new().set_modified(SystemTime::now()))?;
    Ok(lock)
}

fn marks(directory: &Path) -> io::Result<[Mark; 2]> {
    let [memory, state] = SAVED_FILES.map(|name| Mark::of(&directory.join(name)));
    Ok([memory?, state?])
}

/// Whether booting the machine anew would not help.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull
    )
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
            // One without a description is broken. It takes its space all the same, and goes in its turn.
            let about = fs::symlink_metadata(directory.join(ABOUT)).or_else(|_| entry.metadata());
            let used = about.and_then(|about| about.modified()).ok()?;
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
        // Whoever uses it holds the lock. One that is broken in a way that it cannot be removed stays; others may go.
        if matches!(Lock::alone(&old.directory.join(LOCK)), Ok(None)) {
            continue;
        }
        if cache.remove(&old.directory).is_ok() {
            taken_mib -= old.mib;
        }
    }
    if free_mib(cache.root()) < needed_mib {
        return Err(LabError::DiskFull { path: cache.root().join(HOME), needed_mib });
    }
    Ok(())
}

/// The machines that the cache holds, `None` where the description of one is damaged, and what each takes of the disk in
/// MiB, the latest used last.
pub fn saved_machines(cache: &Cache) -> Vec<(Option<SavedMachine>, u64)> {
    let read = |directory: &Path| {
        let file = regular(&directory.join(ABOUT), File::options().read(true)).ok()?;
        let entry: Entry = serde_json::from_reader(BufReader::new(file)).ok()?;
        Some(entry.machine)
    };
    kept(cache).into_iter().map(|kept| (read(&kept.directory), kept.mib)).collect()
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
