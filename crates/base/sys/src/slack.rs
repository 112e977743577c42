//! The timer slack of any thread: by how much the kernel may let the thread's timers expire late.
//!
//! The kernel has a file for it, `/proc/TID/timerslack_ns`, where TID is the number of any thread.
//! Another thread's slack takes CAP_SYS_NICE. `clock` has the calling thread's.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;

use crate::process::is_gone;

/// A thread's timer slack, open for reading and writing. It stays this thread's, also when a later thread has
/// the thread's number: after the thread's exit each call fails.
#[derive(Debug)]
pub struct Slack(File);

impl Slack {
    /// The timer slack of the thread that has this number now.
    ///
    /// # Errors
    /// If there is no such thread.
    pub fn open(tid: u32) -> io::Result<Slack> {
        File::options().read(true).write(true).open(format!("/proc/{tid}/timerslack_ns")).map(Slack)
    }

    /// The slack, ns. It is 0 for a thread of a real-time class.
    ///
    /// # Errors
    /// If the thread has exited, or the caller may not read it.
    pub fn ns(&self) -> io::Result<u64> {
        let mut text = [0; 32];
        let length = self.0.read_at(&mut text, 0)?;
        let number = std::str::from_utf8(&text[..length]).ok().and_then(|text| text.trim().parse().ok());
        number.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the timer slack is no number"))
    }

    /// Sets the slack, ns. 0 gives the thread the slack that it had when it was started. A thread of a
    /// real-time class keeps 0.
    ///
    /// # Errors
    /// If the thread has exited, or the caller may not change it.
    pub fn set_ns(&self, ns: u64) -> io::Result<()> {
        (&self.0).write_all(ns.to_string().as_bytes())
    }
}

/// Whether opening, reading or setting a slack failed because the thread has exited.
pub fn has_exited(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || is_gone(error)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::{clock, process};

    #[test]
    fn a_thread_s_slack_is_read_set_and_given_back() {
        // A thread may always change its own slack.
        let own = || -> io::Result<[u64; 4]> {
            let slack = Slack::open(process::tid())?;
            let first_ns = slack.ns()?;
            slack.set_ns(70_123)?;
            let set = [slack.ns()?, clock::timer_slack_ns()?];
            slack.set_ns(0)?;
            Ok([first_ns, set[0], set[1], slack.ns()?])
        };
        let [first, set, kernels, back] =
            thread::spawn(own).join().expect("it ends").expect("its own is its to set");
        assert_eq!((set, kernels, back), (70_123, 70_123, first));
    }

    #[test]
    fn the_slack_of_an_exited_thread_cannot_be_read() {
        let (say, heard) = channel();
        let (done, wait) = channel::<()>();
        let thread = thread::spawn(move || {
            say.send(process::tid()).expect("it is heard");
            _ = wait.recv();
        });
        let tid = heard.recv().expect("it is said");
        let slack = Slack::open(tid).expect("it runs");
        drop(done);
        thread.join().expect("it ends");
        // The kernel removes the thread from its list a moment after the join.
        while std::fs::exists(format!("/proc/self/task/{tid}")).expect("it is readable") {
            thread::yield_now();
        }
        assert!(slack.set_ns(1).is_err_and(|error| has_exited(&error)));
        assert!(Slack::open(u32::MAX).is_err_and(|error| has_exited(&error)));
    }
}
