//! A connection's bytes, read and written with as few system calls as possible: a display is looked at fifty
//! times a second.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use spry_sys::poll::PollFlags;
use x11rb::rust_connection::{PollMode, Stream};
use x11rb::utils::RawFdContainer;

use crate::sys;

/// A local socket. Once it has no bytes left, the kernel is not asked for more until
/// [`Quiet::look`] is called.
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

    /// Notes that there may be something to read again.
    pub(super) fn look(&self) {
        self.is_drained.store(false, Ordering::Relaxed);
    }
}

impl AsFd for Quiet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for Quiet {
    fn poll(&self, mode: PollMode) -> io::Result<()> {
        // A socket can be written to unless it has just refused.
        if mode.writable() && !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut events = PollFlags::empty();
        if mode.readable() {
            events |= PollFlags::IN;
        }
        if mode.writable() {
            events |= PollFlags::OUT;
        }
        sys::wait_for(self.as_fd(), events)?;
        self.is_full.store(false, Ordering::Relaxed);
        self.look();
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], _: &mut Vec<RawFdContainer>) -> io::Result<usize> {
        if self.is_drained.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let room = bytes.len();
        match sys::receive(self.as_fd(), bytes) {
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
