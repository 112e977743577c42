//! The guardian: a process that outlives its caller. When the caller or the loads end, it ends the loads'
//! remaining processes and removes the loads' files.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use spry_sys::namespace::{self, Kind};
use spry_sys::outlive::{self, detach, keep_only};
use spry_sys::{Signal, poll, process, schedule, signal};

use crate::confine;
use crate::crew::{self, Plan};
use crate::error::{LoadError, of};
use crate::journal::Journal;
use crate::message::Message;
use crate::nfs;

/// The end of a guardian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Everything is cleaned up.
    Well,
    /// The guardian could not clean up, or was killed.
    Badly,
    /// Other code of this process has waited for all children.
    Unknown,
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        if status.success() { Self::Well } else { Self::Badly }
    }
}

/// The caller's handle of its guardian.
#[derive(Debug)]
pub(crate) struct Guardian {
    tgid: u32,
    has_ended: Option<End>,
}

impl Guardian {
    /// Forks a guardian of the calling process. The guardian starts the loads. Returns the handle, and the
    /// caller's end of the line to the crew.
    pub(crate) fn start(journal: &Journal, plan: &Plan) -> Result<(Self, UnixStream), LoadError> {
        let caller = process::open(std::process::id()).map_err(of("watching this process"))?;
        let (ours, theirs) = UnixStream::pair().map_err(of("making a line to the loads"))?;
        // SAFETY: the child touches no lock of this process, and writes to no standard stream.
        let tgid = unsafe { outlive::fork(|| guard(journal, plan, &caller, theirs)) };
        Ok((Self { tgid: tgid.map_err(of("starting the guardian"))?, has_ended: None }, ours))
    }

    /// Waits for at most this long until the guardian ends. Returns how it ended; `None` if it has not
    /// ended.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<End> {
        let until = Instant::now() + patience;
        while self.has_ended.is_none() {
            match process::try_wait(self.tgid) {
                Ok(None) if Instant::now() >= until => break,
                Ok(None) => sleep(Duration::from_millis(2)),
                Ok(Some(status)) => self.has_ended = Some(status.into()),
                Err(_) => self.has_ended = Some(End::Unknown),
            }
        }
        self.has_ended
    }

    /// Kills the guardian. The loads end with it.
    pub(crate) fn kill(&mut self) {
        if self.has_ended.is_none() {
            // The child was not waited for, so the process id is still its own.
            _ = signal::send(self.tgid, Signal::KILL);
            self.wait(Duration::from_secs(10));
        }
    }
}

/// Runs the guardian, and returns its exit status.
fn guard(journal: &Journal, plan: &Plan, caller: &OwnedFd, mut line: UnixStream) -> i32 {
    detach(&[journal.lock_fd(), caller.as_fd(), line.as_fd()], c"spry-load-guard");
    schedule::leave_real_time();
    let code = match start_crew(journal, plan, &line) {
        Ok((crew, _pipe)) => {
            drop(line);
            attend(crew, caller)
        }
        Err(error) => {
            _ = line.write_all(Message::Failed(error.to_string()).line().as_bytes());
            1
        }
    };
    // If a file cannot be removed now, the journal stays, and the next run removes both.
    if journal.finish().is_ok() { code } else { 1 }
}

/// Forks the crew into namespaces of its own. The crew inherits a pipe that is closed when the guardian
/// ends.
fn start_crew(journal: &Journal, plan: &Plan, line: &UnixStream) -> Result<(u32, OwnedFd), LoadError> {
    let own = File::open("/proc/self/ns/pid").map_err(of("opening this namespace"))?;
    confine::outside()?;
    if plan.has_nfs() {
        nfs::pin(journal.directory())?;
    }
    let (reading, writing) = spry_sys::pipe().map_err(of("making a pipe"))?;
    let theirs = line.try_clone().map_err(of("making a line to the loads"))?;
    let crew = || {
        // The crew closes its copies of the descriptors that only the guardian uses.
        keep_only(&[theirs.as_fd(), reading.as_fd()]);
        crew::run(plan, theirs, &reading)
    };
    let child = process::fork(crew).map_err(of("starting the loads"))?;
    // One thread of this process may later end an NFS server. It must be in the namespace of this process.
    // If the kernel refuses, there is no such server.
    _ = namespace::enter(own.as_fd(), Kind::ProcessID);
    Ok((child, writing))
}

/// Waits for the end of the caller or of the crew, then ends the crew. Returns the exit code of the guardian.
fn attend(crew: u32, caller: &OwnedFd) -> i32 {
    if let Ok(handle) = process::open(crew) {
        while !poll::any([caller.as_fd(), handle.as_fd()], Duration::MAX).contains(&true) {}
    }
    // The crew was not waited for, so the process id is still its own.
    _ = signal::send(crew, Signal::KILL);
    // The call returns when every process of the namespace has ended.
    _ = process::wait(crew);
    0
}
