//! Waiting for descriptors and reading without waiting, by calls that the eyes' filter lets through; and the
//! user that eyes look as.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use spry_sys::poll::{self, PollFd, PollFlags};
use spry_sys::user::group_and_home;

/// The group of a user that is not in the system's list: the group of `nobody`.
const NO_GROUP: u32 = 65_534;

/// The user that eyes look as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: PathBuf,
}

impl User {
    /// The user with this number, with the group and the home of the system's list of users.
    pub(crate) fn of(uid: u32) -> User {
        let (gid, home) = group_and_home(uid).unwrap_or((NO_GROUP, PathBuf::from("/")));
        User { uid, gid, home }
    }
}

/// Waits until a descriptor has one of the events.
pub(crate) fn wait_for(descriptor: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    while poll::wait(&mut [PollFd::from_borrowed_fd(descriptor, events)], None)? == 0 {}
    Ok(())
}

/// Waits until one of the descriptors can be read, for `at_most` if given. Returns whether one can be read.
pub(crate) fn wait(descriptors: &[BorrowedFd<'_>], at_most: Option<Duration>) -> bool {
    let mut polls: Vec<PollFd<'_>> =
        descriptors.iter().map(|&descriptor| poll::readable_of(descriptor)).collect();
    // An early return is harmless.
    poll::wait(&mut polls, at_most).is_ok_and(|ready| ready > 0)
}

/// Reads the bytes that a socket has now. Returns their number, or `None` if there are none.
///
/// # Errors
/// If the other end is closed, or the connection is broken.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
    match recv(socket, into, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok((_, count)) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
