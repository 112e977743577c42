//! A connection's bytes, read and written with as few system calls as can be: a display is looked at fifty times a second.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use x11rb::rust_connection::{PollMode, Stream};
use x11rb::utils::RawFdContainer;

use crate::sys;

/// A local socket. What it is thought to have no bytes left for is not asked of the kernel before [`Quiet::look`].
#[derive(Debug)]
pub(super) struct Quiet {
    socket: UnixStream,
    is_drained: AtomicBool,
    is_full: AtomicBool,
}

impl Quiet {
    pub(super) fn new(socket: UnixStream) -> io::Result<Quiet> {
        socket.set_nonblocking(true)?;
        Ok(Quiet { socket, is_drained: AtomicBool::new(false), is_full: AtomicBool::new(false) })
    }

    /// There may be something to read.
    pub(super) fn look(&self) {
        self.is_drained.store(false, Ordering::Relaxed);
    }
}

impl AsRawFd for Quiet {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Stream for Quiet {
    fn poll(&self, mode: PollMode) -> io::Result<()> {
        // A socket can be written to unless it has just refused.
        if mode.writable() && !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut events = 0;
        if mode.readable() {
            events |= libc::POLLIN;
        }
        if mode.writable() {
            events |= libc::POLLOUT;
        }
        sys::wait_for(self.as_raw_fd(), events)?;
        self.is_full.store(false, Ordering::Relaxed);
        self.look();
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], _: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        if self.is_drained.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let room = bytes.len();
        match sys::receive(self.as_raw_fd(), bytes) {
            Ok(Some(count)) => {
                self.is_drained.store(count < room, Ordering::Relaxed);
                Ok(count)
            }
            Ok(None) => {
                self.is_drained.store(true, Ordering::Relaxed);
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn write(&self, bytes: &[u8], _: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        let written = io::Write::write(&mut &self.socket, bytes);
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            self.is_full.store(true, Ordering::Relaxed);
        }
        written
    }
}
