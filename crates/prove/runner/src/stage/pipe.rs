//! Pipes between the threads or processes of a task.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use spry_sys::{file, measured};

use super::Stage;

/// The end of a pipe from which bytes are read. A reader that is dropped is closed.
#[derive(Debug)]
pub(crate) struct Reader(OwnedFd);

/// The end of a pipe to which bytes are written. A writer that is dropped is closed.
#[derive(Debug)]
pub(crate) struct Writer(OwnedFd);

impl Stage {
    /// Makes a pipe. Processes that are forked inherit both ends.
    pub(crate) fn pipe(&self) -> io::Result<(Reader, Writer)> {
        let (from, to) = spry_sys::pipe()?;
        Ok((Reader(from), Writer(to)))
    }
}

impl Reader {
    /// From now on a read fails rather than waits.
    pub(crate) fn never_wait(&self) {
        // The kernel allows this for every pipe.
        let _ = file::never_wait(&self.0);
    }

    /// Reads the bytes that have come, and waits for the first if there are none. Fails with
    /// `EINTR` at a signal.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        measured::read(self.0.as_fd(), buffer)
    }
}

impl Writer {
    /// From now on a write fails rather than waits.
    pub(crate) fn never_wait(&self) {
        // The kernel allows this for every pipe.
        let _ = file::never_wait(&self.0);
    }

    /// Writes as many bytes as fit, and waits until at least one byte fits. Fails with `EINTR` at a signal.
    pub(crate) fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        measured::write(self.0.as_fd(), buffer)
    }
}
