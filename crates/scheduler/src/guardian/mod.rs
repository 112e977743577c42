//! The guardian: a process forked before anything is changed, which undoes everything if the daemon ends without having done
//! so, and which watches those whom the daemon made real-time tasks.

pub mod journal;
mod restore;
pub mod settings;
mod undo;
pub mod watch;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use spry_outlive::{detach, open_process};

use journal::Journal;
pub use restore::{Restored, restore_all};
pub(crate) use restore::{autogroup_of, number_in, numbers_in, undo_group};
use settings::{OTHER, ROUND_ROBIN, Settings};
pub use undo::{DEMOTED, Undone, undo};
use watch::{LOOK_EVERY_NS, Watch, now_ns};

/// The real-time priority of the guardian: above that of a server.
const PRIORITY: u32 = 2;

/// How long it may take to come to its post.
const BIRTH: Duration = Duration::from_secs(5);
/// How often, and how long each time, its end is waited for.
const FAREWELL: (u32, Duration) = (100, Duration::from_millis(2));

/// A guardian, as its daemon holds it. Dropping it tells the guardian to end, which it does if nothing is left to undo.
#[derive(Debug)]
pub struct Guardian {
    tgid: u32,
    /// Written to when there is somebody new to watch; closed at the end.
    line: Option<UnixStream>,
}

impl Guardian {
    /// Forks a guardian of the calling process over a journal.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn start(journal: &mut Journal) -> io::Result<Guardian> {
        let daemon = open_process(std::process::id() as libc::pid_t)?;
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the child touches no lock of this process, and writes to no standard stream.
        let child = unsafe { spry_outlive::fork(|| guard(journal, &daemon, &theirs)) }?;
        drop(theirs);
        let guardian = Guardian { tgid: child as u32, line: Some(ours) };
        guardian.wait()?;
        Ok(guardian)
    }

    /// Until it is out of reach of what ends the daemon.
    fn wait(&self) -> io::Result<()> {
        let Some(mut line) = self.line.as_ref() else { return Ok(()) };
        line.set_read_timeout(Some(BIRTH))?;
        line.read_exact(&mut [0])?;
        line.set_nonblocking(true)
    }

    /// Its process.
    pub const fn tgid(&self) -> u32 {
        self.tgid
    }

    /// Whether it lives.
    pub fn is_alive(&self) -> bool {
        let mut status = 0;
        // SAFETY: the status is ours, and the process our child.
        unsafe { libc::waitpid(self.tgid as libc::pid_t, &raw mut status, libc::WNOHANG) == 0 }
    }

    /// Says that there is somebody to be watched.
    pub fn look(&self) {
        if let Some(mut line) = self.line.as_ref() {
            _ = line.write_all(&[1]);
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // It ends if nothing is left to undo; else it waits for our own end.
        self.line = None;
        let mut status = 0;
        for _ in 0..FAREWELL.0 {
            // SAFETY: as above.
            if unsafe { libc::waitpid(self.tgid as libc::pid_t, &raw mut status, libc::WNOHANG) } != 0 {
                return;
            }
            sleep(FAREWELL.1);
        }
    }
}

/// Undoes what earlier daemon and guardian of this boot have left, if both were killed: also without starting anew.
///
/// # Errors
/// Where the journal cannot be had.
pub fn restore_left(path: &Path) -> io::Result<Restored> {
    if !path.exists() {
        return Ok(Restored::default());
    }
    Ok(restore_all(&mut Journal::open(path)?))
}

/// The guardian's life; the status that it ends with.
fn guard(journal: &mut Journal, daemon: &OwnedFd, line: &UnixStream) -> libc::c_int {
    detach(&[journal.file().as_raw_fd(), daemon.as_raw_fd(), line.as_raw_fd()], c"spry-guardian");
    come_first();
    let mut line = line;
    _ = line.write_all(&[1]);
    _ = line.set_nonblocking(true);
    let mut watch = Watch::default();
    let mut polled = [daemon.as_raw_fd(), line.as_raw_fd()].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    loop {
        let anybody = watch.look(journal, now_ns());
        let timeout_ms = if anybody { (LOOK_EVERY_NS / 1_000_000) as i32 } else { -1 };
        // SAFETY: the array is as long as is said.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
        if ready <= 0 {
            continue;
        }
        if polled[0].revents != 0 {
            _ = restore_all(journal);
            return 0;
        }
        if polled[1].revents != 0 && hung_up(line) {
            if journal.is_empty() {
                return 0;
            }
            polled[1].fd = -1;
        }
    }
}

/// Takes the bytes off the line; whether its other end is closed.
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

/// The guardian is in no memory's way and waits for no CPU.
fn come_first() {
    // What ends the daemon for lack of memory must leave the one who cleans up behind it.
    _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let real_time =
        Settings { policy: ROUND_ROBIN, priority: PRIORITY, reset_on_fork: 1, ..Settings::default() };
    if real_time.schedule(0).is_err() {
        let nice = Settings { policy: OTHER, nice: -20, reset_on_fork: 1, ..Settings::default() };
        _ = nice.schedule(0);
    }
}
