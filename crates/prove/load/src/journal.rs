//! The journal of a run of loads: a locked file with the directory that must be removed. It is written before
//! the directory is made.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::{LoadError, at};
use crate::nfs;

/// The beginning of the names of the journals and of the runs' directories.
const PREFIX: &str = "spry-load-";
/// The file that names the run to which a directory belongs.
const MARK: &str = ".spry-load";
/// How long the removal of a directory is tried again while killed processes still write into it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The journal of one run: it names the directory that stays if no process cleans up. The file is locked
/// until its maker and all children of the maker have ended.
#[derive(Debug)]
pub(crate) struct Journal {
    lock: File,
    path: PathBuf,
    directory: PathBuf,
}

/// The result of [`clean`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// The removed directories. They belonged to runs that were killed together with their guardians.
    pub removed: Vec<PathBuf>,
    /// How many runs are under way.
    pub running: usize,
}

/// Removes the remains of runs that were killed together with their guardians. `state` is
/// [`crate::Options::state`].
///
/// # Errors
/// If a file of these runs cannot be removed.
pub fn clean(state: &Path) -> Result<Cleanup, LoadError> {
    let home = state.join("loads");
    if !home.exists() {
        return Ok(Cleanup::default());
    }
    let _lock = hold(&home)?;
    let mut cleaned = Cleanup::default();
    for entry in fs::read_dir(&home).map_err(at(&home))? {
        let path = entry.map_err(at(&home))?.path();
        if !is_ours(&path) {
            continue;
        }
        let file = File::open(&path).map_err(at(&path))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            cleaned.running += 1;
            continue;
        }
        // A journal that was not written to its end has no directory yet.
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        if let Some(directory) = text.strip_suffix('\n').map(PathBuf::from) {
            if remove(&directory)? {
                cleaned.removed.push(directory);
            }
        }
        fs::remove_file(&path).map_err(at(&path))?;
    }
    cleaned.removed.sort();
    Ok(cleaned)
}

impl Journal {
    /// Writes the name of a new directory below `home` into the journal, then makes the directory.
    pub(crate) fn create(state: &Path, home: &Path) -> Result<Self, LoadError> {
        let place = state.join("loads");
        fs::create_dir_all(&place).map_err(at(&place))?;
        let _lock = hold(&place)?;
        let file = tempfile::Builder::new().prefix(PREFIX).tempfile_in(&place).map_err(at(&place))?;
        let (mut lock, path) = file.keep().map_err(|error| at(&place)(error.error))?;
        let name = path.file_name().unwrap_or_default().to_owned();
        let directory = home.join(&name);
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(at(&path))?;
        writeln!(lock, "{}", directory.display()).map_err(at(&path))?;
        let journal = Self { lock, path, directory };
        let directory = &journal.directory;
        let made = DirBuilder::new().mode(0o700).create(directory);
        let marked = made.and_then(|()| fs::write(directory.join(MARK), name.as_encoded_bytes()));
        match marked {
            Ok(()) => Ok(journal),
            Err(error) => {
                let error = at(directory)(error);
                journal.finish()?;
                Err(error)
            }
        }
    }

    /// The run's directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The descriptor that holds the journal's lock.
    pub(crate) fn lock_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// Removes the run's directory, then the journal. A second call does no harm.
    pub(crate) fn finish(&self) -> Result<(), LoadError> {
        remove(&self.directory)?;
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&self.path)(error)),
            _ => Ok(()),
        }
    }
}

/// Removes a directory if it belongs to a run. Returns whether the directory was removed.
fn remove(directory: &Path) -> Result<bool, LoadError> {
    match fs::symlink_metadata(directory) {
        Ok(found) if found.is_dir() && is_ours(directory) => {}
        Ok(_) => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(at(directory)(error)),
    }
    let name = directory.file_name().unwrap_or_default().as_encoded_bytes();
    let is_marked = fs::read(directory.join(MARK)).is_ok_and(|mark| mark == name);
    let is_empty = fs::read_dir(directory).map_err(at(directory))?.next().is_none();
    if !is_marked && !is_empty {
        return Ok(false);
    }
    nfs::release(directory)?;
    let began = Instant::now();
    loop {
        match fs::remove_dir_all(directory) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) if began.elapsed() > PATIENCE => return Err(at(directory)(error)),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Keeps other processes from making and cleaning runs until the result is dropped.
fn hold(place: &Path) -> Result<File, LoadError> {
    let path = place.join("lock");
    let file = File::create(&path).map_err(at(&path))?;
    flock(&file, FlockOperation::LockExclusive).map_err(at(&path))?;
    Ok(file)
}

fn flock(file: &File, how: FlockOperation) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::flock(file, how))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_dead_run_are_removed_and_a_live_run_s_stay() {
        let (state, home) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        let dead = Journal::create(state.path(), home.path()).expect("a run");
        let alive = Journal::create(state.path(), home.path()).expect("another");
        fs::write(dead.directory().join("file"), "left").expect("it can be written");
        let left = dead.directory().to_owned();
        drop(dead);
        let cleaned = clean(state.path()).expect("it can be cleaned");
        assert_eq!(cleaned, Cleanup { removed: vec![left.clone()], running: 1 });
        assert!(!left.exists() && alive.directory().exists());
        alive.finish().expect("it ends");
        assert_eq!(clean(state.path()).expect("nothing is left"), Cleanup::default());
        assert_eq!(fs::read_dir(home.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_marked_as_ours_is_left_alone() {
        let (state, home) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        let run = Journal::create(state.path(), home.path()).expect("a run");
        let place = run.directory().to_owned();
        drop(run);
        fs::write(place.join(MARK), "something else").expect("it can be written");
        assert_eq!(clean(state.path()).expect("it can be cleaned"), Cleanup::default());
        assert!(place.exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_run_s_directory_is_not_followed() {
        let (state, home) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        let run = Journal::create(state.path(), home.path()).expect("a run");
        let place = run.directory().to_owned();
        drop(run);
        let moved = home.path().join("elsewhere");
        fs::rename(&place, &moved).expect("it can be moved");
        std::os::unix::fs::symlink(&moved, &place).expect("a link");
        assert_eq!(clean(state.path()).expect("it can be cleaned"), Cleanup::default());
        assert!(moved.join(MARK).exists());
    }
}
