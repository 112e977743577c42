//! The book of the machine's settings: the first value of each setting, and the values that processes hold,
//! the latest last. Each change is in the book before it is made.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use spry_setting::Setting;

use crate::error::{TuneError, at, refused};

/// The beginning of the names of the holders' files.
const PREFIX: &str = "holder-";
const BOOK: &str = "book.json";
const LOCK: &str = "lock";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// How long the lock may be held by another process: it is held for some system calls only.
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome for a setting that was given back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Back {
    /// This value is in force again.
    Restored(Setting),
    /// Another process holds the setting now, and gives it back.
    Held(Setting),
    /// Something else has changed the setting meanwhile; this value was left as it is.
    Changed(Setting),
    /// The kernel refused this value. The next process gives it back.
    Failed(Setting, String),
}

/// The settings that processes hold.
#[derive(Default, Serialize, Deserialize)]
struct Book {
    /// The boot during which the settings were made, by the kernel's boot id.
    boot: String,
    /// The settings, in the order in which they were set.
    entries: Vec<Entry>,
}

/// A setting that processes hold.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// The value that was in force before.
    before: Setting,
    /// The values that processes hold, the latest last. The latest value is in force.
    claims: Vec<Claim>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Claim {
    holder: String,
    setting: Setting,
}

/// A process that holds settings, and its guardian. Its file is locked while one of the two runs.
#[derive(Debug)]
pub(crate) struct Holder {
    place: PathBuf,
    name: String,
    file: File,
}

impl Holder {
    /// Makes a holder that holds nothing yet. First gives back the settings of processes that were killed
    /// together with their guardians.
    pub(crate) fn new(place: &Path) -> Result<Holder, TuneError> {
        make(place)?;
        let _lock = lock(place)?;
        open(place)?.0.save(place)?;
        let own = std::process::id();
        for number in 0.. {
            // Processes of different namespaces may have one number.
            let name = format!("{PREFIX}{own}-{number}");
            let path = place.join(&name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(at(&path))?;
                    return Ok(Holder { place: place.to_owned(), name, file });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
        unreachable!("there are more numbers than files")
    }

    /// The descriptor that holds the lock.
    pub(crate) fn lock_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Puts a setting in force, and holds it. Returns the old setting. If the value is in force already and
    /// no process holds it, it is left alone.
    pub(crate) fn set(&self, setting: &Setting) -> Result<Setting, TuneError> {
        let _lock = lock(&self.place)?;
        let (mut book, _) = open(&self.place)?;
        let now = setting.in_force().map_err(refused(setting))?;
        let Some(entry) = book.entry(setting, &now) else { return Ok(now) };
        entry.claims.push(Claim { holder: self.name.clone(), setting: setting.clone() });
        book.save(&self.place)?;
        match setting.write().and_then(|()| setting.in_force()) {
            Ok(found) if found == *setting => Ok(now),
            done => {
                // If the setting was not written, this changes nothing.
                _ = now.write();
                book.forget(&self.name, setting);
                book.save(&self.place)?;
                Err(match done {
                    Ok(found) => TuneError::Kept { asked: setting.clone(), now: found },
                    Err(error) => refused(setting)(error),
                })
            }
        }
    }

    /// Gives back all settings that are held. A second call does nothing.
    pub(crate) fn give_back(&self) -> Result<Vec<Back>, TuneError> {
        let _lock = lock(&self.place)?;
        let (mut book, _) = open(&self.place)?;
        let backs = book.release(&self.name);
        book.save(&self.place)?;
        if !book.holds(&self.name) {
            // The file may have been removed already.
            _ = fs::remove_file(self.place.join(&self.name));
        }
        Ok(backs)
    }
}

/// Gives back the settings of processes that were killed together with their guardians; `place` is
/// [`Kernel::state`](crate::Kernel::state).
///
/// # Errors
/// If the book cannot be read or written.
pub fn restore(place: &Path) -> Result<Vec<Back>, TuneError> {
    let path = place.join(BOOK);
    if !path.try_exists().map_err(at(&path))? {
        return Ok(Vec::new());
    }
    let _lock = lock(place)?;
    open(place).map(|(_, backs)| backs)
}

/// Whether a process holds a setting, as far as this user may read the book.
pub(crate) fn is_held(place: &Path, setting: &Setting) -> bool {
    let book: Option<Book> =
        fs::read(place.join(BOOK)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    book.is_some_and(|book| book.entries.iter().any(|entry| entry.before.is_about_the_same(setting)))
}

/// Reads the book, and gives back the settings of holders that have ended. The caller holds the lock.
fn open(place: &Path) -> Result<(Book, Vec<Back>), TuneError> {
    let path = place.join(BOOK);
    let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
    let mut book = match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| at(&path)(error.into()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Book::default(),
        Err(error) => return Err(at(&path)(error)),
    };
    if book.boot != boot {
        // The book is from an earlier boot: since then the kernel has started with its own settings.
        book = Book { boot, entries: Vec::new() };
    }
    let mut backs = Vec::new();
    let dead = dead(place, &book)?;
    for holder in &dead {
        backs.extend(book.release(holder));
    }
    if !dead.is_empty() {
        book.save(place)?;
    }
    for holder in dead.iter().filter(|holder| !book.holds(holder)) {
        // The file may be missing already.
        _ = fs::remove_file(place.join(holder));
    }
    Ok((book, backs))
}

/// The holders that have ended: holders in the book, and holders that have a file but no settings yet.
fn dead(place: &Path, book: &Book) -> Result<Vec<String>, TuneError> {
    let claims = book.entries.iter().flat_map(|entry| &entry.claims);
    // The settings of the latest holder are given back first.
    let mut names: Vec<String> = claims.rev().map(|claim| claim.holder.clone()).collect();
    for entry in fs::read_dir(place).map_err(at(place))? {
        let name = entry.map_err(at(place))?.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) {
            names.push(name);
        }
    }
    let mut dead = Vec::new();
    for name in names {
        if !dead.contains(&name) && !is_alive(&place.join(&name)) {
            dead.push(name);
        }
    }
    Ok(dead)
}

/// Whether a holder or its guardian still runs.
fn is_alive(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

impl Book {
    /// The entry of a setting; `now` is in force. `None` if there is no entry and `now` is the wanted value.
    fn entry(&mut self, setting: &Setting, now: &Setting) -> Option<&mut Entry> {
        let at = self.entries.iter().position(|entry| entry.before.is_about_the_same(setting));
        let at = match at {
            None if now == setting => return None,
            None => {
                self.entries.push(Entry { before: now.clone(), claims: Vec::new() });
                self.entries.len() - 1
            }
            Some(at) => {
                let entry = &mut self.entries[at];
                if entry.claims.last().is_some_and(|claim| claim.setting != *now) {
                    // Something else has changed the setting, so its earlier values are not restored.
                    *entry = Entry { before: now.clone(), claims: Vec::new() };
                }
                at
            }
        };
        self.entries.get_mut(at)
    }

    /// Drops the latest claim of a holder to a setting, which was not put in force.
    fn forget(&mut self, holder: &str, setting: &Setting) {
        for entry in &mut self.entries {
            let is_last = |claim: &Claim| claim.holder == holder && claim.setting == *setting;
            if entry.claims.last().is_some_and(is_last) {
                entry.claims.pop();
            }
        }
        self.entries.retain(|entry| !entry.claims.is_empty());
    }

    /// Gives back a holder's settings, the latest first. Settings that the kernel refuses stay in the book.
    fn release(&mut self, holder: &str) -> Vec<Back> {
        let mut backs = Vec::new();
        for entry in self.entries.iter_mut().rev() {
            // A holder may have set the setting twice.
            while let Some(at) = entry.claims.iter().rposition(|claim| claim.holder == holder) {
                let back = entry.release(at);
                let has_failed = matches!(back, Back::Failed(..));
                backs.push(back);
                if has_failed {
                    break;
                }
            }
        }
        self.entries.retain(|entry| !entry.claims.is_empty());
        backs
    }

    fn holds(&self, holder: &str) -> bool {
        self.entries.iter().flat_map(|entry| &entry.claims).any(|claim| claim.holder == holder)
    }

    /// Replaces the book atomically: if this process is killed, either the old book or the new book is there.
    fn save(&mut self, place: &Path) -> Result<(), TuneError> {
        let (path, new) = (place.join(BOOK), place.join("book.new"));
        let bytes = serde_json::to_vec(self).map_err(|error| at(&path)(error.into()))?;
        fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path)).map_err(at(&path))
    }
}

impl Entry {
    /// Releases the claim with this index.
    fn release(&mut self, place: usize) -> Back {
        let ours = self.claims[place].setting.clone();
        if place + 1 < self.claims.len() {
            self.claims.remove(place);
            return Back::Held(ours);
        }
        let below = if place == 0 { &self.before } else { &self.claims[place - 1].setting }.clone();
        let done = match ours.in_force() {
            Ok(now) if now == below => Ok(Back::Restored(below.clone())),
            Ok(now) if now == ours => below.write().map(|()| Back::Restored(below.clone())),
            Ok(now) => {
                // Something else has changed the setting, so its earlier values are not restored.
                self.claims.clear();
                return Back::Changed(now);
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(_) if place > 0 => {
                self.claims.pop();
                Back::Held(below)
            }
            Ok(back) => {
                self.claims.pop();
                back
            }
            Err(error) => Back::Failed(below, error.to_string()),
        }
    }
}

/// Makes the directory of the book. Users may enter its parent directory, where the daemon's socket is.
fn make(place: &Path) -> Result<(), TuneError> {
    if let Some(above) = place.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(above).map_err(at(above))?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(at(place))
}

/// Keeps other processes from the book until the result is dropped.
fn lock(place: &Path) -> Result<File, TuneError> {
    let path = place.join(LOCK);
    let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = open.map_err(at(&path))?;
    let began = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(at(&path)(error)),
        }
    }
}

fn flock(file: &File, how: FlockOperation) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| rustix::fs::flock(file, how))?)
}

#[cfg(test)]
mod tests;
