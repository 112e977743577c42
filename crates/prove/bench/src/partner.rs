//! The other process of a switch, which sends back every byte that it receives.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use spry_sys::clock::process_cpu_ns;
use spry_sys::{measured, process};

/// Another process, which sends back every byte that it receives. It ends when this process ends, or when
/// this value is dropped.
pub(crate) struct Partner {
    tgid: u32,
    to: Option<OwnedFd>,
    from: OwnedFd,
}

impl Partner {
    /// Starts the process on the CPUs and in the class of the calling thread.
    pub(crate) fn start() -> io::Result<Partner> {
        let ((theirs, to), (from, back)) = (spry_sys::pipe()?, spry_sys::pipe()?);
        let tgid = measured::start_echo(theirs.as_fd(), back.as_fd(), [to.as_fd(), from.as_fd()])?;
        Ok(Partner { tgid, to: Some(to), from })
    }

    /// Sends a byte to the process, and waits until the byte is back.
    #[inline]
    pub(crate) fn exchange(&self) -> io::Result<()> {
        let Some(to) = &self.to else { return Err(io::ErrorKind::BrokenPipe.into()) };
        measured::pass(to.as_fd(), self.from.as_fd())
    }

    /// The CPU time that the process has used, ns.
    pub(crate) fn cpu_ns(&self) -> u64 {
        process_cpu_ns(self.tgid).unwrap_or(0)
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // The process ends when its pipe is closed.
        self.to = None;
        _ = process::wait(self.tgid);
    }
}
