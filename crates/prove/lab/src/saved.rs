//! Saved machines: each was booted once. The cache keeps them up to a limit of space, and finds them by the
//! hash of their inputs.

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

/// The directory of saved machines in the cache.
const HOME: &str = "saved";
/// The space that all saved machines may take, MiB. A machine takes the memory that its guest has touched,
/// which is about 150 MiB, and the size of its image.
pub(crate) const BOUND_MIB: u64 = 8 * 1024;
/// The disk space that must stay free for results while a machine boots, MiB.
const SPARE_MIB: u64 = 256;
/// The file that describes a saved machine. Its modification time is the time of the machine's latest use.
const ABOUT: &str = "machine.json";
/// How often a damaged machine is booted again.
const REPAIRS: u32 = 1;
/// The file of the lock that each user of a machine holds while the emulator opens the machine's files.
const LOCK: &str = "lock";

/// A saved machine, as `spry lab machines` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedMachine {
    /// The release of the machine's kernel.
    pub kernel: String,
    /// How many CPUs the machine has.
    pub cpus: u32,
    /// An instruction takes 2 to the power of this number, in nanoseconds.
    pub shift: u8,
    /// The size of the machine's memory, MiB.
    pub memory_mib: u64,
    /// How many packages the machine's image holds.
    pub packages: usize,
    /// The kernel's boot parameters in addition to the lab's own.
    pub cmdline: String,
}

/// The content of [`ABOUT`].
#[derive(Serialize, Deserialize)]
struct Entry {
    machine: SavedMachine,
    /// The marks of [`SAVED_FILES`].
    marks: [Mark; 2],
}

/// A saved machine that this process uses. No other process removes it meanwhile.
#[derive(Debug)]
pub(crate) struct MachineInUse {
    pub(crate) directory: PathBuf,
    _lock: Lock,
}

/// The saved machines that were compared with their marks since the lab was opened. Each is compared only
/// once, because a comparison takes some tenths of a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckedMachines(Arc<Mutex<BTreeSet<PathBuf>>>);

impl CheckedMachines {
    fn set(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the saved machine of this hardware. If the cache does not hold it, the machine is booted and saved.
/// `inputs` are the hashes of the hardware's files.
pub(crate) fn prepare(
    cache: &Cache,
    looked_at: &CheckedMachines,
    hardware: &Hardware<'_>,
    inputs: &[&str],
    about: &SavedMachine,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<MachineInUse, LabError> {
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
            Ok(lock) => return Ok(MachineInUse { directory, _lock: lock }),
            Err(error) if is_forbidden(&error) => return Err(at(&directory)(error)),
            // Another process has removed the machine to make room for a different machine. The machine is
            // then booted again.
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

/// Takes the lock of a machine, so that no process removes it, and checks that its files are unchanged
/// since it was saved.
fn begin_use(directory: &Path, looked_at: &CheckedMachines) -> io::Result<Lock> {
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

/// Whether the error would also occur if the machine were booted again.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::StorageFull
    )
}

/// A saved machine in the cache.
struct KeptMachine {
    directory: PathBuf,
    used: SystemTime,
    mib: u64,
}

fn kept(cache: &Cache) -> Vec<KeptMachine> {
    let entries = fs::read_dir(cache.root().join(HOME)).into_iter().flatten().flatten();
    let mut found: Vec<KeptMachine> = entries
        .filter_map(|entry| {
            let directory = entry.path();
            // A machine without a description is broken. It takes space like the others, and is removed when
            // it is the least recently used.
            let about = fs::symlink_metadata(directory.join(ABOUT)).or_else(|_| entry.metadata());
            let used = about.and_then(|about| about.modified()).ok()?;
            Some(KeptMachine { mib: taken_mib(&directory), used, directory })
        })
        .collect();
    found.sort_by(|a, b| (a.used, &a.directory).cmp(&(b.used, &b.directory)));
    found
}

/// The space that the files of a directory take on the disk, MiB. The memory files have holes, so this is
/// less than their length.
fn taken_mib(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum::<u64>() >> 20
}

/// Removes machines, the least recently used first, until the others keep to the limit of space and the disk
/// has room for another machine.
fn make_room(cache: &Cache, needed_mib: u64) -> Result<(), LabError> {
    let kept = kept(cache);
    let mut taken_mib: u64 = kept.iter().map(|kept| kept.mib).sum();
    for old in &kept {
        let is_enough = taken_mib + needed_mib <= BOUND_MIB && free_mib(cache.root()) >= needed_mib;
        if is_enough {
            break;
        }
        // A process that uses a machine holds its lock, so the machine stays. If a broken machine cannot be
        // removed, it stays too, and others may be removed.
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

/// The machines that the cache holds, in the order of their latest use. `None` stands for a machine with a
/// damaged description. The number is the space that the machine takes on the disk, MiB.
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
    fn the_least_recently_used_machine_goes_and_one_in_use_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(root.path()).expect("a cache");
        let [oldest, old, new] =
            [("a", 300), ("b", 200), ("c", 100)].map(|(name, age)| saved(&cache, name, age));
        let in_use = Lock::shared(&oldest.join(LOCK)).expect("nobody has it alone");
        let names = |kept: Vec<KeptMachine>| kept.into_iter().map(|kept| kept.directory).collect::<Vec<_>>();
        assert_eq!(names(kept(&cache)), [oldest.clone(), old.clone(), new.clone()]);
        // The function needs more room than the limit allows, so it removes every machine that it may remove.
        let full = make_room(&cache, u64::MAX >> 1);
        assert!(matches!(full, Err(LabError::DiskFull { .. })));
        assert!(oldest.exists() && !old.exists() && !new.exists());
        drop(in_use);
        assert!(make_room(&cache, 1).is_ok() && oldest.exists(), "there is room");
    }
}
