//! The kernel's own count of a thread's run time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The run time of a thread, which is read again and again.
#[derive(Debug)]
pub struct RunTime(File);

impl RunTime {
    /// The run time of a thread of a process. Any thread's number may stand for its process.
    ///
    /// # Errors
    /// `ENOENT` if there is no such thread, or if the kernel does not count run times.
    pub fn of(tgid: u32, tid: u32) -> io::Result<RunTime> {
        File::open(format!("/proc/{tgid}/task/{tid}/schedstat")).map(RunTime)
    }

    /// The run time so far, ns; `None` when the thread has ended.
    pub fn ran_ns(&self) -> Option<u64> {
        let mut bytes = [0; 64];
        let count = self.0.read_at(&mut bytes, 0).ok()?;
        std::str::from_utf8(&bytes[..count]).ok()?.split_ascii_whitespace().next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn the_run_time_of_a_thread_grows_and_one_that_is_gone_has_none() {
        let tid = process::tid();
        let own = RunTime::of(tid, tid).unwrap();
        let before_ns = own.ran_ns().unwrap();
        while own.ran_ns().unwrap() == before_ns {
            std::thread::yield_now();
        }
        let ended = std::thread::spawn(|| {
            let tid = process::tid();
            RunTime::of(tid, tid).unwrap()
        });
        let ended = ended.join().unwrap();
        while ended.ran_ns().is_some() {
            std::thread::yield_now();
        }
    }
}
