//! The journal lists changes to threads and groups that must be undone when the daemon ends. Each entry is
//! written before its change, to memory that the daemon and the guardian share. That memory is a file, so
//! that the next daemon finds the entries if both were killed.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::settings::{Settings, TaskId};

const MAGIC: u64 = 0x5350_5259_4a4e_4c32;
/// The greatest number of threads that can be changed at once. Further threads are not changed.
pub const TASKS_MAX: usize = 65_536;
/// The greatest number of groups that can be changed at once.
pub const GROUPS_MAX: usize = 256;
/// The greatest number of display servers that can be real-time at once.
pub const WATCHED_MAX: usize = 16;
const PATH_MAX: usize = 440;
/// The longest wait for the lock on the journal: an earlier daemon's guardian may still be ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// The first part of the journal's memory, before the records.
#[repr(C)]
struct Head {
    magic: u64,
    boot: [u8; 40],
    base_slice_ns: u64,
    since: u64,
    /// The number of the first thread record that was never used.
    tasks_used: AtomicU32,
    groups_used: AtomicU32,
    watched: [WatchedProcess; WATCHED_MAX],
}

/// A process that Spry has made real-time. The guardian demotes it if it takes too much of the CPU.
#[repr(C)]
#[derive(Default)]
pub struct WatchedProcess {
    /// The process; 0: this entry is free.
    pub tgid: AtomicU32,
    pad: u32,
    /// The time of the demotion to an ordinary policy, ns of the monotonic clock; 0: it is real-time.
    pub demoted_ns: AtomicU64,
}

/// The record of a thread's change. `live` is 0 if the record is free.
#[repr(C)]
struct TaskRecord {
    live: AtomicU32,
    pad: u32,
    id: TaskId,
    before: Settings,
    ours: [Settings; 2],
}

/// The kind of a group's change.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupKind {
    /// A number in a file: a group's weight.
    Weight = 1,
    /// A session's nice value, in `/proc/TGID/autogroup`.
    Autogroup = 2,
    /// A directory that Spry has made. To undo this, its tasks are moved to the parent directory,
    /// and it is removed.
    Directory = 3,
}

/// A change that Spry has made to a group of tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupChange {
    /// The kind of the change.
    pub kind: GroupKind,
    /// The file or directory that was changed.
    pub path: PathBuf,
    /// For a session: the thread that names the session in `/proc`.
    pub id: TaskId,
    /// The number before the change.
    pub before: i64,
    /// The number after the change.
    pub ours: i64,
}

#[repr(C)]
struct GroupRecord {
    live: AtomicU32,
    kind: u32,
    id: TaskId,
    before: i64,
    ours: i64,
    path: [u8; PATH_MAX],
}

const GROUPS_AT: usize = 4096;
const TASKS_AT: usize = GROUPS_AT + GROUPS_MAX * size_of::<GroupRecord>();
const SIZE: usize = TASKS_AT + TASKS_MAX * size_of::<TaskRecord>();
const _: () = assert!(size_of::<Head>() <= GROUPS_AT);
const _: () = assert!(TASKS_AT % align_of::<TaskRecord>() == 0 && GROUPS_AT % align_of::<GroupRecord>() == 0);

/// A change to a thread, read from the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskChange {
    /// The thread that is changed.
    pub id: TaskId,
    /// The settings that the thread had before.
    pub before: Settings,
    /// The settings that Spry has given to the thread: the present settings, and the next settings.
    pub ours: [Settings; 2],
}

/// The journal, mapped. While the daemon runs, it writes the journal. The guardian reads it, and writes only
/// times of demotion.
#[derive(Debug)]
pub struct Journal {
    map: NonNull<u8>,
    /// The journal's file. It stays locked as long as a process has it open.
    file: File,
    /// Numbers of the free thread records below `tasks_used`.
    free: Vec<u32>,
}

// SAFETY: the mapping belongs to no thread, and its data that are not atomic are written through `&mut` only.
unsafe impl Send for Journal {}

impl Journal {
    /// Opens and locks the journal at a path, and makes it if there is none. Entries from before the last
    /// boot are dropped. Entries of this boot stay, so that the caller can undo them.
    ///
    /// # Errors
    /// If the file cannot be opened, or another daemon or its guardian has locked it.
    pub fn open(path: &Path) -> io::Result<Journal> {
        if let Some(directory) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)?;
        lock(&file)?;
        Journal::map(file)
    }

    /// A journal without a file name, for a machine without a directory for it. No later daemon can find it.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn unnamed() -> io::Result<Journal> {
        let name = CString::new("spry-journal").map_err(io::Error::other)?;
        // SAFETY: the name ends with 0.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned here alone.
        Journal::map(unsafe { File::from_raw_fd(fd) })
    }

    fn map(file: File) -> io::Result<Journal> {
        let whole = file.metadata()?.len() == SIZE as u64;
        if !whole {
            file.set_len(0)?;
            file.set_len(SIZE as u64)?;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long.
        let map =
            unsafe { libc::mmap(ptr::null_mut(), SIZE, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("no mapping"))?;
        let mut journal = Journal { map, file, free: Vec::new() };
        let boot = boot_id();
        let head = journal.head();
        if head.magic != MAGIC || head.boot != boot {
            journal.file.set_len(0)?;
            journal.file.set_len(SIZE as u64)?;
            // SAFETY: the head is mapped and no other process looks at it yet.
            unsafe {
                let head = journal.map.cast::<Head>().as_ptr();
                (*head).boot = boot;
                (*head).magic = MAGIC;
            }
        }
        journal.free = (0..journal.tasks_used())
            .filter(|&at| journal.task_record(at as usize).live.load(Ordering::Relaxed) == 0)
            .collect();
        Ok(journal)
    }

    /// Stores the data for undoing the changes: the kernel's own slice, ns, and the start of the daemon, in
    /// ticks of `/proc` (10 ms) since boot.
    pub fn begin(&mut self, base_slice_ns: u64, since: u64) {
        let head = self.map.cast::<Head>().as_ptr();
        // SAFETY: the head is mapped; the guardian reads these after the daemon's end only.
        unsafe {
            (*head).base_slice_ns = base_slice_ns;
            (*head).since = since;
        }
    }

    /// The start of the daemon, in ticks of `/proc` (10 ms) since boot.
    pub fn since(&self) -> u64 {
        self.head().since
    }

    /// The kernel's own slice that the journal stores, ns.
    pub fn base_slice_ns(&self) -> u64 {
        self.head().base_slice_ns
    }

    /// The processes that Spry has made real-time.
    pub fn watched(&self) -> &[WatchedProcess] {
        &self.head().watched
    }

    /// Adds an entry before a thread is changed: from the settings `before` to `next`. Returns the record's
    /// number; `None` if the journal is full.
    pub fn task_begin(&mut self, id: TaskId, before: Settings, next: Settings) -> Option<u32> {
        let at = self.free.pop().or_else(|| {
            let used = self.tasks_used();
            ((used as usize) < TASKS_MAX).then(|| {
                self.head().tasks_used.store(used + 1, Ordering::Release);
                used
            })
        })?;
        let record = self.task_mut(at);
        // SAFETY: the record is mapped and free, so no process reads it.
        unsafe {
            (*record).id = id;
            (*record).before = before;
            (*record).ours = [next; 2];
            (*record).live.store(1, Ordering::Release);
        }
        fence(Ordering::SeqCst);
        Some(at)
    }

    /// Updates the entry of a changed thread before the thread is changed again, to `next`.
    pub fn task_next(&mut self, at: u32, next: Settings) {
        let record = self.task_mut(at);
        // SAFETY: the record is mapped. Whenever the daemon ends, one of the two sets of settings is true.
        unsafe {
            let current = (*record).ours[1];
            ptr::write_volatile(&raw mut (*record).ours[0], current);
            fence(Ordering::SeqCst);
            ptr::write_volatile(&raw mut (*record).ours[1], next);
        }
        fence(Ordering::SeqCst);
    }

    /// Removes the entry of a thread. Its change was undone, or the thread has exited.
    pub fn task_end(&mut self, at: u32) {
        self.task_record(at as usize).live.store(0, Ordering::Release);
        self.free.push(at);
    }

    /// The change in a thread's record; `None` if the record is free.
    pub fn task(&self, at: u32) -> Option<TaskChange> {
        let record = self.task_record(at as usize);
        let live = record.live.load(Ordering::Acquire) != 0;
        live.then_some(TaskChange { id: record.id, before: record.before, ours: record.ours })
    }

    /// All changes to threads that are not undone, with the numbers of their records.
    pub fn tasks(&self) -> impl Iterator<Item = (u32, TaskChange)> + '_ {
        (0..self.tasks_used()).filter_map(|at| Some((at, self.task(at)?)))
    }

    /// Adds an entry before a group is changed. Returns the record's number; `None` if the journal is full or
    /// the path is too long.
    pub fn group_begin(&mut self, change: &GroupChange) -> Option<u32> {
        let path = change.path.to_str()?.as_bytes();
        if path.len() >= PATH_MAX {
            return None;
        }
        let used = self.head().groups_used.load(Ordering::Relaxed);
        let at = (0..used)
            .find(|&at| self.group_record(at).live.load(Ordering::Relaxed) == 0)
            .or_else(|| ((used as usize) < GROUPS_MAX).then_some(used))?;
        let record = self.group_mut(at);
        // SAFETY: the record is mapped and free, so no process reads it.
        unsafe {
            (*record).kind = change.kind as u32;
            (*record).id = change.id;
            (*record).before = change.before;
            (*record).ours = change.ours;
            let mut bytes = [0; PATH_MAX];
            bytes[..path.len()].copy_from_slice(path);
            (*record).path = bytes;
            (*record).live.store(1, Ordering::Release);
        }
        self.head().groups_used.fetch_max(at + 1, Ordering::Release);
        fence(Ordering::SeqCst);
        Some(at)
    }

    /// Removes the entry of a group, after its change was undone.
    pub fn group_end(&mut self, at: u32) {
        self.group_record(at).live.store(0, Ordering::Release);
    }

    /// The change in a group's record; `None` if the record is free or cannot be read.
    pub fn group(&self, at: u32) -> Option<GroupChange> {
        let record = self.group_record(at);
        if record.live.load(Ordering::Acquire) == 0 {
            return None;
        }
        let kind = match record.kind {
            1 => GroupKind::Weight,
            2 => GroupKind::Autogroup,
            3 => GroupKind::Directory,
            _ => return None,
        };
        let length = record.path.iter().position(|&byte| byte == 0)?;
        let path = PathBuf::from(std::str::from_utf8(&record.path[..length]).ok()?);
        Some(GroupChange { kind, path, id: record.id, before: record.before, ours: record.ours })
    }

    /// All changes to groups that are not undone, with the numbers of their records. The latest comes first,
    /// since they must be undone in this order.
    pub fn groups(&self) -> impl Iterator<Item = (u32, GroupChange)> + '_ {
        let used = self.head().groups_used.load(Ordering::Acquire).min(GROUPS_MAX as u32);
        (0..used).rev().filter_map(|at| Some((at, self.group(at)?)))
    }

    /// Whether the journal has no entry left to undo.
    pub fn is_empty(&self) -> bool {
        self.tasks().next().is_none() && self.groups().next().is_none()
    }

    /// The journal's file, for a process that shares it.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn tasks_used(&self) -> u32 {
        self.head().tasks_used.load(Ordering::Acquire).min(TASKS_MAX as u32)
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping begins with a head and lasts as long as `self`; any bytes are a valid head.
        unsafe { self.map.cast::<Head>().as_ref() }
    }

    fn task_mut(&self, at: u32) -> *mut TaskRecord {
        assert!((at as usize) < TASKS_MAX, "no such record");
        // SAFETY: the record lies within the mapping.
        unsafe { self.map.as_ptr().add(TASKS_AT).cast::<TaskRecord>().add(at as usize) }
    }

    fn task_record(&self, at: usize) -> &TaskRecord {
        // SAFETY: the record lies within the mapping; any bytes are a valid record.
        unsafe { &*self.task_mut(at as u32) }
    }

    fn group_mut(&self, at: u32) -> *mut GroupRecord {
        assert!((at as usize) < GROUPS_MAX, "no such record");
        // SAFETY: the record lies within the mapping.
        unsafe { self.map.as_ptr().add(GROUPS_AT).cast::<GroupRecord>().add(at as usize) }
    }

    fn group_record(&self, at: u32) -> &GroupRecord {
        // SAFETY: the record lies within the mapping; any bytes are a valid record.
        unsafe { &*self.group_mut(at) }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrowed from it outlives `self`.
        unsafe { libc::munmap(self.map.as_ptr().cast(), SIZE) };
    }
}

fn lock(file: &File) -> io::Result<()> {
    let began = Instant::now();
    loop {
        // SAFETY: the call takes only numbers.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        if began.elapsed() > LOCK_PATIENCE {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        sleep(Duration::from_millis(20));
    }
}

fn boot_id() -> [u8; 40] {
    let mut id = [0; 40];
    let text = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let length = text.len().min(id.len());
    id[..length].copy_from_slice(&text[..length]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TaskId = TaskId { tid: 3, tgid: 2, start: 99 };

    fn change(path: &str) -> GroupChange {
        GroupChange {
            kind: GroupKind::Weight,
            path: path.into(),
            id: TaskId::default(),
            before: 100,
            ours: 9,
        }
    }

    #[test]
    fn changes_begun_outlive_the_writer_and_ended_ones_do_not() {
        let directory = std::env::temp_dir().join(format!("spry-journal-{}", std::process::id()));
        let path = directory.join("journal");
        let mut journal = Journal::open(&path).unwrap();
        let next = Settings { nice: -20, ..Settings::default() };
        let first = journal.task_begin(ID, Settings::default(), next).unwrap();
        let second = journal.task_begin(TaskId { tid: 4, ..ID }, Settings::default(), next).unwrap();
        journal.task_next(second, Settings { nice: -10, ..next });
        journal.task_end(first);
        journal.group_begin(&change("/a/b")).unwrap();
        drop(journal);

        let journal = Journal::open(&path).unwrap();
        let tasks: Vec<_> = journal.tasks().collect();
        assert_eq!(tasks.len(), 1);
        assert_eq!(tasks[0].1.id.tid, 4);
        assert_eq!(tasks[0].1.ours.map(|ours| ours.nice), [-20, -10]);
        assert_eq!(journal.groups().map(|(_, group)| group).collect::<Vec<_>>(), [change("/a/b")]);
        drop(journal);

        // After a reboot, no entry of the journal is about a living thread.
        let mut bytes = fs::read(&path).unwrap();
        bytes[8] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert!(Journal::open(&path).unwrap().is_empty());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_full_journal_says_so_and_freed_records_are_used_again() {
        let mut journal = Journal::unnamed().unwrap();
        let begin = |journal: &mut Journal| journal.task_begin(ID, Settings::default(), Settings::default());
        for _ in 0..TASKS_MAX {
            begin(&mut journal).unwrap();
        }
        assert_eq!(begin(&mut journal), None);
        journal.task_end(77);
        assert_eq!(begin(&mut journal), Some(77));
        assert_eq!(journal.group_begin(&change(&"x".repeat(PATH_MAX))), None);
    }
}
