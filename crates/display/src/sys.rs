//! The few system calls that the standard library lacks: waiting for descriptors, and who sent a message.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Who sent a message: `struct ucred`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Peer {
    pub(crate) tgid: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Wakes a thread that waits: an eventfd, which anybody who shares it may write to.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// One that has not woken anybody.
    ///
    /// # Errors
    /// Where the process has no descriptor left.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor of ours.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Wakes whoever waits, or will wait next; safe from any thread. Several times before that are as once.
    pub fn wake(&self) {
        let one = 1_u64;
        // SAFETY: eight readable bytes. It fails only when the counter is full, and then the thread wakes anyway.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes back what woke; whether anything did since the last time.
    pub fn clear(&self) -> bool {
        let mut count = 0_u64;
        // SAFETY: eight writable bytes; it fails only when nobody woke.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) == 8 }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until a descriptor has one of the events.
pub(crate) fn wait_for(descriptor: RawFd, events: libc::c_short) -> io::Result<()> {
    let mut poll = libc::pollfd { fd: descriptor, events, revents: 0 };
    loop {
        // SAFETY: one live entry.
        if unsafe { libc::poll(&raw mut poll, 1, -1) } > 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Waits until one of the descriptors can be read, for `at_most` if given.
pub(crate) fn wait(descriptors: &[RawFd], at_most: Option<Duration>) {
    let mut polls: Vec<libc::pollfd> =
        descriptors.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let time = at_most.map(|time| libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: as many live entries as said, and a time that is null or outlives the call. Early returns are harmless.
    unsafe { libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, time, std::ptr::null()) };
}

/// Reads what is there: how much, or nothing if there is nothing now.
///
/// # Errors
/// If the other end is closed, or broken.
pub(crate) fn receive(socket: RawFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is as long as said.
    let count = unsafe { libc::recv(socket, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(count) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(Some(count)),
        Err(_) => match io::Error::last_os_error() {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(None)
            }
            error => Err(error),
        },
    }
}

/// Asks the kernel to say of each message who sent it.
pub(crate) fn ask_for_credentials(socket: BorrowedFd<'_>) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the option is an int.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const yes).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A message and its sender, as the kernel knows them: how long it is, or nothing if there is none now. One without a sender is
/// nobody's, number 0 of the user who is nobody.
pub(crate) fn receive_from(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<(usize, Peer)>> {
    #[repr(C)]
    struct Control {
        head: libc::cmsghdr,
        peer: Peer,
        room: [u64; 4],
    }
    let nobody = Peer { tgid: 0, uid: u32::MAX, gid: u32::MAX };
    // SAFETY: all of it are numbers, for which zero is valid.
    let mut control: Control = unsafe { mem::zeroed() };
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: as above, and null pointers, which mean that there is nothing.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = mem::size_of::<Control>();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message names live memory as long as it says.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let Ok(count) = usize::try_from(count) else {
        return match io::Error::last_os_error() {
            error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(None)
            }
            error => Err(error),
        };
    };
    let is_credentials = message.msg_controllen >= mem::size_of::<libc::cmsghdr>() + mem::size_of::<Peer>()
        && control.head.cmsg_level == libc::SOL_SOCKET
        && control.head.cmsg_type == libc::SCM_CREDENTIALS;
    close_passed(&message);
    Ok(Some((count, if is_credentials { control.peer } else { nobody })))
}

/// Closes descriptors that somebody passed along, which nobody asked for.
fn close_passed(message: &libc::msghdr) {
    // SAFETY: the macros walk the control messages that the kernel wrote, within their length.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*head).cmsg_len - libc::CMSG_LEN(0) as usize;
                let first = libc::CMSG_DATA(head).cast::<libc::c_int>();
                for at in 0..bytes / mem::size_of::<libc::c_int>() {
                    libc::close(first.add(at).read_unaligned());
                }
            }
            head = libc::CMSG_NXTHDR(message, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_has_woken_once_however_often_it_was_asked_to() {
        let waker = Waker::new().unwrap();
        assert!(!waker.clear());
        waker.wake();
        waker.wake();
        assert!(waker.clear() && !waker.clear());
    }
}
