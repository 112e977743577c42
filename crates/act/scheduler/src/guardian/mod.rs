//! The guardian: a process that undoes the daemon's changes if the daemon ends without doing so.
//!
//! The daemon forks it before the first change. The guardian also watches processes that the daemon
//! has made real-time.

pub mod journal;
pub mod protection;
mod restore;
pub mod settings;
mod undo;
pub mod watch;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use spry_sys::clock::monotonic_ns;
use spry_sys::outlive::{self, detach};
use spry_sys::{poll, process};

use journal::Journal;
pub use restore::{RestoreCounts, restore_all};
pub(crate) use restore::{autogroup_of, number_in, numbers_in, undo_group};
use settings::{OTHER, ROUND_ROBIN, Settings};
pub use undo::{DEMOTED, UndoResult, undo};
use watch::{LOOK_EVERY_NS, UsageWatch};

/// The guardian's real-time priority: above that of a display server.
const PRIORITY: u32 = 2;

/// Time limit for the handshake with a new guardian, which reports that it is ready.
const BIRTH: Duration = Duration::from_secs(5);
/// Time limit for the guardian to exit, when the daemon no longer needs it: the number of checks, and the
/// time between two of them.
const FAREWELL: (u32, Duration) = (100, Duration::from_millis(2));

/// The daemon's handle of its guardian. Dropping it requests the exit of the guardian, which exits if nothing
/// is left to undo.
#[derive(Debug)]
pub struct Guardian {
    tgid: u32,
    /// The daemon writes a byte here when there is a new process to watch, and closes this when it
    /// drops the handle.
    line: Option<UnixStream>,
}

impl Guardian {
    /// Forks a guardian of the calling process, which undoes the changes in the journal when
    /// this process ends.
    ///
    /// # Errors
    /// If the kernel refuses the fork, or the guardian does not report that it is ready.
    pub fn start(journal: &mut Journal) -> io::Result<Guardian> {
        let daemon = process::open(std::process::id())?;
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the child touches no lock of this process, and writes to no standard stream.
        let child = unsafe { outlive::fork(|| guard(journal, &daemon, &theirs)) }?;
        drop(theirs);
        let guardian = Guardian { tgid: child, line: Some(ours) };
        guardian.wait()?;
        Ok(guardian)
    }

    /// Waits until the guardian reports that it is detached: an event that kills the daemon then no longer
    /// kills the guardian.
    fn wait(&self) -> io::Result<()> {
        let Some(mut line) = self.line.as_ref() else { return Ok(()) };
        line.set_read_timeout(Some(BIRTH))?;
        line.read_exact(&mut [0])?;
        line.set_nonblocking(true)
    }

    /// The number of the guardian's process.
    pub const fn tgid(&self) -> u32 {
        self.tgid
    }

    /// Whether the guardian still runs.
    pub fn is_alive(&self) -> bool {
        matches!(process::try_wait(self.tgid), Ok(None))
    }

    /// Notifies the guardian that there is a new process to watch.
    pub fn look(&self) {
        if let Some(mut line) = self.line.as_ref() {
            _ = line.write_all(&[1]);
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // If something is left to undo, the guardian waits for the end of the daemon instead.
        self.line = None;
        for _ in 0..FAREWELL.0 {
            if !self.is_alive() {
                return;
            }
            sleep(FAREWELL.1);
        }
    }
}

/// Undoes changes that an earlier daemon of this boot left because it and its guardian were killed. No new
/// daemon is needed for this.
///
/// # Errors
/// If the journal cannot be opened or locked.
pub fn restore_left(path: &Path) -> io::Result<RestoreCounts> {
    if !path.exists() {
        return Ok(RestoreCounts::default());
    }
    Ok(restore_all(&mut Journal::open(path)?))
}

/// The main function of the guardian's process. Returns the process' exit status.
fn guard(journal: &mut Journal, daemon: &OwnedFd, line: &UnixStream) -> i32 {
    detach(&[journal.file().as_fd(), daemon.as_fd(), line.as_fd()], c"spry-guardian");
    come_first();
    let mut line = line;
    _ = line.write_all(&[1]);
    _ = line.set_nonblocking(true);
    let mut watch = UsageWatch::default();
    let mut is_line_open = true;
    loop {
        let anybody = watch.look(journal, monotonic_ns());
        let at_most = anybody.then_some(Duration::from_nanos(LOOK_EVERY_NS));
        let mut polls = [poll::readable(daemon), poll::readable(&line)];
        let count = if is_line_open { 2 } else { 1 };
        if !poll::wait(&mut polls[..count], at_most).is_ok_and(|ready| ready > 0) {
            continue;
        }
        let [is_over, has_news] = polls.map(|poll| !poll.revents().is_empty());
        if is_over {
            log(restore_all(journal));
            return 0;
        }
        if has_news && hung_up(line) {
            if journal.is_empty() {
                return 0;
            }
            is_line_open = false;
        }
    }
}

/// Writes the changes that were undone to the kernel's log, after the daemon was killed. No other process of
/// Spry's is left to report them.
fn log(restored: RestoreCounts) {
    let RestoreCounts { restored, theirs, groups, .. } = restored;
    let threads = restored + theirs;
    if threads + groups > 0 {
        let text = format!(
            "<4>spry-sched: the daemon was killed; what it had changed is as before (threads: {threads}, groups: {groups})\n"
        );
        _ = fs::write("/dev/kmsg", text);
    }
}

/// Reads all bytes that the daemon has sent. Returns whether the daemon has closed its end.
fn hung_up(mut line: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    loop {
        match line.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// Protects the guardian from being killed when memory runs out, and from waiting for a CPU.
fn come_first() {
    // If the daemon is killed when memory runs out, the guardian must survive to undo its changes.
    _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let real_time =
        Settings { policy: ROUND_ROBIN, priority: PRIORITY, reset_on_fork: 1, ..Settings::default() };
    if real_time.schedule(0).is_err() {
        let nice = Settings { policy: OTHER, nice: -20, reset_on_fork: 1, ..Settings::default() };
        _ = nice.schedule(0);
    }
}
