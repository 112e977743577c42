//! The guardian: a process that outlives its caller, and gives back the machine's settings that it made.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use spry_sys::outlive::{self, detach};
use spry_sys::{poll, process, schedule};

use crate::book::{Back, Holder};

/// How long a new guardian may take to report that it is ready.
const BIRTH: Duration = Duration::from_secs(5);
/// How long the caller waits for the guardian to exit.
const FAREWELL: Duration = Duration::from_secs(1);
/// How often the guardian tries to give back settings, and how long it waits in between.
const TRIES: (u32, Duration) = (5, Duration::from_millis(200));

/// The caller's side of a guardian. When it is dropped, the guardian gives back the settings that are still
/// held, and exits.
#[derive(Debug)]
pub(crate) struct Guardian {
    tgid: u32,
    /// The connection to the guardian, which acts when it is closed.
    line: Option<UnixStream>,
}

impl Guardian {
    /// Forks a guardian of the calling process, before anything is set. It is ready when this returns.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn start(holder: &Holder) -> io::Result<Guardian> {
        let caller = process::open(std::process::id())?;
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the child takes no lock of this process, and writes to no standard stream.
        let tgid = unsafe { outlive::fork(|| guard(holder, &caller, &theirs)) }?;
        drop(theirs);
        let mut guardian = Guardian { tgid, line: Some(ours) };
        if let Some(line) = guardian.line.as_mut() {
            line.set_read_timeout(Some(BIRTH))?;
            line.read_exact(&mut [0])?;
        }
        Ok(guardian)
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.line = None;
        let until = Instant::now() + FAREWELL;
        while matches!(process::try_wait(self.tgid), Ok(None)) && Instant::now() < until {
            sleep(Duration::from_millis(1));
        }
    }
}

/// The main function of the guardian. Returns the exit status of its process.
fn guard(holder: &Holder, caller: &OwnedFd, line: &UnixStream) -> i32 {
    detach(&[holder.lock_fd(), caller.as_fd(), line.as_fd()], c"spry-tune-guard");
    schedule::leave_real_time();
    let mut line = line;
    _ = line.write_all(&[1]);
    while !poll::any([caller.as_fd(), line.as_fd()], Duration::MAX).contains(&true) {}
    for _ in 0..TRIES.0 {
        let has_failed = |backs: Vec<Back>| backs.iter().any(|back| matches!(back, Back::Failed(..)));
        if holder.give_back().is_ok_and(|backs| !has_failed(backs)) {
            return 0;
        }
        sleep(TRIES.1);
    }
    // The settings that are left are in the book, and the next process gives them back.
    1
}
