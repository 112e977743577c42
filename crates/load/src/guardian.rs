//! The guardian: a process that outlives its caller, ends the loads when the caller or they themselves end, and removes what is left.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use spry_outlive::{detach, open_process};

use crate::confine;
use crate::crew::{self, Plan, wait_for};
use crate::error::{LoadError, checked, of};
use crate::journal::Journal;
use crate::message::Message;
use crate::nfs;

/// A guardian, as its caller holds it.
#[derive(Debug)]
pub(crate) struct Guardian {
    tgid: libc::pid_t,
    has_ended: Option<libc::c_int>,
}

impl Guardian {
    /// Forks a guardian of the calling process, which starts the loads; the other end of the line to them.
    pub(crate) fn start(journal: &Journal, plan: &Plan) -> Result<(Self, UnixStream), LoadError> {
        let caller = open_process(std::process::id() as libc::pid_t).map_err(of("watching this process"))?;
        let (ours, theirs) = UnixStream::pair().map_err(of("making a line to the loads"))?;
        // SAFETY: the child touches no lock of this process, and writes to no standard stream.
        let tgid = unsafe { spry_outlive::fork(|| guard(journal, plan, &caller, theirs)) };
        Ok((Self { tgid: tgid.map_err(of("starting the guardian"))?, has_ended: None }, ours))
    }

    /// Whether it ends within this time; its status then.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<libc::c_int> {
        let until = Instant::now() + patience;
        while self.has_ended.is_none() {
            let mut status = 0;
            // SAFETY: the status is ours, and the process our child.
            match unsafe { libc::waitpid(self.tgid, &raw mut status, libc::WNOHANG) } {
                0 if Instant::now() >= until => break,
                0 => sleep(Duration::from_millis(2)),
                // Somebody else has waited for all children: it has ended, nobody knows how.
                -1 => self.has_ended = Some(-1),
                _ => self.has_ended = Some(status),
            }
        }
        self.has_ended
    }

    /// Ends it, and with it the loads.
    pub(crate) fn kill(&mut self) {
        if self.has_ended.is_none() {
            // SAFETY: the process is a child that has not been waited for.
            unsafe { libc::kill(self.tgid, libc::SIGKILL) };
            self.wait(Duration::from_secs(10));
        }
    }
}

/// The guardian's life; the status that it ends with.
fn guard(journal: &Journal, plan: &Plan, caller: &OwnedFd, mut line: UnixStream) -> libc::c_int {
    detach(&[journal.lock_fd(), caller.as_raw_fd(), line.as_raw_fd()], c"spry-load-guard");
    confine::leave_real_time();
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
    // What cannot be removed now stays written down for the next run.
    if journal.finish().is_ok() { code } else { 1 }
}

/// Forks the crew into namespaces of its own; what it knows the guardian's end by comes with it.
fn start_crew(
    journal: &Journal,
    plan: &Plan,
    line: &UnixStream,
) -> Result<(libc::pid_t, OwnedFd), LoadError> {
    let own = File::open("/proc/self/ns/pid").map_err(of("opening this namespace"))?;
    confine::outside()?;
    if plan.has_nfs() {
        nfs::pin(journal.directory())?;
    }
    let (reading, writing) = pipe().map_err(of("making a pipe"))?;
    let theirs = line.try_clone().map_err(of("making a line to the loads"))?;
    let crew = || {
        // SAFETY: these descriptors are this process' copies, used by nothing here any more.
        unsafe {
            libc::close(writing.as_raw_fd());
            libc::close(journal.lock_fd());
            libc::close(line.as_raw_fd());
        }
        crew::run(plan, theirs, &reading)
    };
    // SAFETY: this process has one thread.
    let child = unsafe { spry_outlive::fork(crew) }.map_err(of("starting the loads"))?;
    // Later threads of this process, which ends an NFS server in one, belong to its own namespace again.
    // SAFETY: the descriptor is open. Where this is refused there is no such server.
    unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) };
    Ok((child, writing))
}

/// Waits for the end of the caller or of the crew, and ends the crew; the code to exit with.
fn attend(crew: libc::pid_t, caller: &OwnedFd) -> libc::c_int {
    if let Ok(handle) = open_process(crew) {
        while !wait_for([caller.as_raw_fd(), handle.as_raw_fd()], Duration::MAX).contains(&true) {}
    }
    // SAFETY: the crew has not been waited for; the status is not wanted.
    unsafe {
        libc::kill(crew, libc::SIGKILL);
        // It returns when every process of the namespace is gone.
        while libc::waitpid(crew, ptr::null_mut(), 0) == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
    0
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both; the descriptors are new and nobody else's.
    unsafe {
        checked(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}
