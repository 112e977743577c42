//! A cache: a directory of entries that were built. The name of each entry is the hash of its inputs. Several
//! processes can use the cache at once.

use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use spry_experiment::digest;
use tempfile::TempDir;

use crate::error::{LabError, at};
use crate::integrity::regular;
use crate::progress::Stop;

/// The pause between two tries to take a lock that another process holds.
const LOCK_RETRY: Duration = Duration::from_millis(200);
/// The directory of the locks.
const LOCKS: &str = "locks";
/// The name of the lock that each process holds, shared with the others, while it uses the cache.
const USERS: &str = "users";
/// The directories for runs that are under way and for entries that are being built. Their content is removed
/// after the process that made it has ended.
const SCRATCH: [&str; 2] = ["runs", "building"];

/// A cache that this process uses: no other process empties it meanwhile.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    _use: Arc<Lock>,
}

impl Cache {
    /// Opens the cache in this directory, and makes the directory if it is missing. Files that ended
    /// processes left in the cache are removed.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn open(root: &Path) -> Result<Self, LabError> {
        let locks = root.join(LOCKS);
        make_private(&locks)?;
        let root = root.canonicalize().map_err(at(root))?;
        if root.to_str().is_none() {
            let why = "its name is not UTF-8: set SPRY_CACHE to another directory";
            return Err(at(&root)(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let users = locks.join(USERS);
        let cache = Self { root, _use: Arc::new(Lock::shared(&users).map_err(at(&users))?) };
        for kind in SCRATCH {
            make_private(&cache.root.join(kind))?;
            cache.sweep(kind)?;
        }
        Ok(cache)
    }

    /// Empties the cache in this directory, except for entries with a name of `kept`. Returns how many bytes
    /// were freed. If a process uses the cache, the call removes nothing and returns `None`.
    ///
    /// # Errors
    /// If a file of the cache cannot be read or removed.
    pub fn empty(root: &Path, kept: &[&str]) -> Result<Option<u64>, LabError> {
        let locks = root.join(LOCKS);
        make_private(&locks)?;
        let users = locks.join(USERS);
        let Some(_alone) = Lock::alone(&users).map_err(at(&users))? else { return Ok(None) };
        let mut bytes = 0;
        for entry in fs::read_dir(root).map_err(at(root))? {
            let path = entry.map_err(at(root))?.path();
            if path == locks || kept.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            bytes += size(&path);
            let is_directory = fs::symlink_metadata(&path).map_err(at(&path))?.is_dir();
            if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
                .map_err(at(&path))?;
        }
        Ok(Some(bytes))
    }

    /// The usual place of the cache: `SPRY_CACHE` if it is set, else `spry` in the user's cache directory.
    pub fn default_root() -> PathBuf {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("SPRY_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("spry")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/spry")))
            .unwrap_or_else(|| env::temp_dir().join("spry-cache"))
    }

    /// The directory of the cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The entry for `key`, which names everything from which the entry is built. If the cache does not have
    /// the entry, `build` fills it.
    ///
    /// # Errors
    /// If the build fails, or a stop is requested while another process builds.
    pub fn entry(
        &self,
        kind: &str,
        key: &str,
        stop: &Stop,
        build: impl FnOnce(&Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let home = self.root.join(kind);
        let path = home.join(key);
        if path.exists() {
            return Ok(path);
        }
        make_private(&home)?;
        let _lock = self.lock(&format!("{kind}-{key}"), stop)?;
        if path.exists() {
            return Ok(path);
        }
        let scratch = self.scratch("building")?;
        let inner = scratch.path().join("entry");
        fs::create_dir(&inner).map_err(at(&inner))?;
        build(&inner)?;
        fs::rename(&inner, &path).map_err(at(&path))?;
        Ok(path)
    }

    /// Removes an entry: first its name, so that no process finds it any more, then its files.
    pub(crate) fn remove(&self, entry: &Path) -> Result<(), LabError> {
        let scratch = self.scratch("building")?;
        fs::rename(entry, scratch.path().join("entry")).map_err(at(entry))
    }

    /// Waits until no other process holds the lock of this name, then holds it until the result is dropped.
    ///
    /// # Errors
    /// If the lock's file cannot be made, or a stop is requested.
    pub fn lock(&self, name: &str, stop: &Stop) -> Result<Lock, LabError> {
        let path = self.root.join(LOCKS).join(name);
        let file = File::create(&path).map_err(at(&path))?;
        while !try_lock(&file).map_err(at(&path))? {
            if stop.is_requested() {
                return Err(LabError::Interrupted);
            }
            thread::sleep(LOCK_RETRY);
        }
        Ok(Lock { _file: file })
    }

    /// Makes a directory for one run. The directory is removed when the result is dropped. If this process is
    /// killed, the directory is removed when the cache is opened the next time.
    pub(crate) fn run_directory(&self) -> Result<Scratch, LabError> {
        self.scratch("runs")
    }

    fn scratch(&self, kind: &str) -> Result<Scratch, LabError> {
        let home = self.root.join(kind);
        let _lock = self.lock(kind, &Stop::new())?;
        let prefix = format!("{}-", std::process::id());
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(&home).map_err(at(&home))?;
        let path = directory.path().join(".lock");
        let lock = File::create(&path).map_err(at(&path))?;
        try_lock(&lock).map_err(at(&path))?;
        Ok(Scratch { directory, _lock: lock })
    }

    /// Removes the directories of processes that have ended.
    fn sweep(&self, kind: &str) -> Result<(), LabError> {
        let home = self.root.join(kind);
        let _lock = self.lock(kind, &Stop::new())?;
        for entry in fs::read_dir(&home).map_err(at(&home))? {
            let path = entry.map_err(at(&home))?.path();
            // The process that made the directory holds this lock until it exits.
            let is_owned = match File::open(path.join(".lock")) {
                Ok(lock) => !try_lock(&lock).map_err(at(&path))?,
                Err(_) => false,
            };
            if !is_owned {
                match fs::remove_dir_all(&path) {
                    // The process that made the directory is removing it at this moment.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    removed => removed.map_err(at(&path))?,
                }
            }
        }
        Ok(())
    }
}

impl Lock {
    /// Holds the lock of a file. Other processes may hold it at the same time in the same way.
    pub(crate) fn shared(path: &Path) -> io::Result<Self> {
        let file = Self::file(path)?;
        flock(&file, FlockOperation::LockShared)?;
        Ok(Self { _file: file })
    }

    /// Holds the lock of a file alone; `None` if another process holds the lock now.
    pub(crate) fn alone(path: &Path) -> io::Result<Option<Self>> {
        let file = Self::file(path)?;
        Ok(try_lock(&file)?.then_some(Self { _file: file }))
    }

    fn file(path: &Path) -> io::Result<File> {
        regular(path, File::options().write(true).create(true).truncate(false))
    }
}

/// A lock that this process holds.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A directory that is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: TempDir,
    _lock: File,
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Makes a directory that other users of the machine cannot enter: any user that can open a lock's file
/// could hold the lock.
fn make_private(path: &Path) -> Result<(), LabError> {
    let make = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let about = fs::metadata(path)?;
        if about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 != 0 {
            fs::set_permissions(path, Permissions::from_mode(0o700))?;
        }
        Ok(())
    };
    make().map_err(at(path))
}

/// The bytes that a file, or all files of a directory, take on the disk. The memory files of saved machines
/// have holes, so this is less than their length.
fn size(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    if !metadata.is_dir() {
        return metadata.blocks() * 512;
    }
    fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(size(&entry.ok()?.path()))).sum()
}

fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The hash of several texts, as 32 hexadecimal digits. Texts that are split differently give
/// different hashes.
pub fn key_of<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut joined = Vec::new();
    for part in parts {
        joined.extend((part.len() as u64).to_le_bytes());
        joined.extend(part.as_bytes());
    }
    let mut key = digest::of_bytes(&joined);
    key.truncate(32);
    key
}

/// The hash of a file's content, as 64 hexadecimal digits.
///
/// # Errors
/// If the file cannot be read.
pub fn digest_of_file(path: &Path) -> Result<String, LabError> {
    digest::of_file(path).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_built_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path()).expect("it opens");
        let build = |path: &Path| fs::write(path.join("x"), "1").map_err(at(path));
        let first = cache.entry("kind", "key", &Stop::new(), build).expect("it is built");
        let again = cache.entry("kind", "key", &Stop::new(), |_| panic!("it is there")).expect("it is found");
        assert_eq!(first, again);
        assert_eq!(fs::read_to_string(first.join("x")).expect("it is kept"), "1");
    }

    #[test]
    fn an_entry_that_failed_half_way_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path()).expect("it opens");
        let failed = cache.entry("kind", "key", &Stop::new(), |path| {
            fs::write(path.join("half"), "").map_err(at(path))?;
            Err(LabError::Interrupted)
        });
        assert!(matches!(failed, Err(LabError::Interrupted)));
        assert!(!cache.root().join("kind/key").exists());
        assert_eq!(fs::read_dir(cache.root().join("building")).expect("it is there").count(), 0);
    }

    #[test]
    fn only_what_dead_processes_left_is_swept() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path()).expect("it opens");
        let dead = cache.root().join("runs/dead");
        fs::create_dir(&dead).expect("it can be made");
        fs::write(dead.join(".lock"), "").expect("it can be written");
        let living = cache.run_directory().expect("a run begins");
        let again = Cache::open(directory.path()).expect("it opens again");
        drop(again);
        assert!(!dead.exists() && living.path().exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn a_cache_in_use_is_not_emptied_and_named_parts_are_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        let cache = Cache::open(root).expect("it opens");
        fs::create_dir(root.join("peers")).expect("it can be made");
        let build = |path: &Path| fs::write(path.join("x"), "12").map_err(at(path));
        let entry = cache.entry("kind", "key", &Stop::new(), build).expect("it is built");
        let second = cache.clone();
        drop(cache);
        assert_eq!(Cache::empty(root, &["peers"]).expect("it can be read"), None);
        assert!(entry.exists());
        drop(second);
        File::create(root.join("hole")).and_then(|hole| hole.set_len(1 << 40)).expect("it can be made");
        let freed = Cache::empty(root, &["peers"]).expect("it can be removed").expect("no process uses it");
        assert!((2..1 << 20).contains(&freed), "{freed}");
        let mut left: Vec<_> =
            fs::read_dir(root).expect("it is there").map(|x| x.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["locks", "peers"]);
        Cache::open(root).expect("it opens again").run_directory().expect("a run begins");
    }

    #[test]
    fn other_users_cannot_enter_a_cache_s_directories() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("locks")).expect("it can be made");
        fs::set_permissions(directory.path().join("locks"), Permissions::from_mode(0o755))
            .expect("it is ours");
        let cache = Cache::open(directory.path()).expect("it opens");
        cache.entry("kind", "key", &Stop::new(), |_| Ok(())).expect("it is built");
        for name in ["locks", "runs", "building", "kind"] {
            let mode = fs::metadata(cache.root().join(name)).expect("it is there").mode();
            assert_eq!(mode & 0o777, 0o700, "{name}");
        }
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_lock() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path()).expect("it opens");
        let stop = Stop::new();
        let _held = cache.lock("one", &stop).expect("it is free");
        stop.request();
        assert!(matches!(cache.lock("one", &stop), Err(LabError::Interrupted)));
    }

    #[test]
    fn neighbouring_parts_of_a_key_are_told_apart() {
        assert_ne!(key_of(["ab", "c"]), key_of(["a", "bc"]));
    }
}
