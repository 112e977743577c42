//! Messages with their sender as the kernel reports it, and with files that are refused or closed.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The sender of a message: `struct ucred`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Peer {
    /// The sender's process; 0 if this process' namespace does not have it.
    pub tgid: u32,
    /// The sender's user number.
    pub uid: u32,
    /// The sender's group number.
    pub gid: u32,
}

/// Makes a socket, and the sockets that connect to it, refuse messages with files. Returns whether it can:
/// kernels before 6.16 cannot.
pub fn refuse_files(socket: BorrowedFd<'_>) -> bool {
    /// An option of Linux 6.16; libc and rustix have no name for it yet.
    const SO_PASSRIGHTS: libc::c_int = 83;
    let no: libc::c_int = 0;
    // SAFETY: the option is an int.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    done == 0
}

/// Asks the kernel to name the sender of each message that the socket receives.
///
/// # Errors
/// If it is no socket.
pub fn ask_for_credentials(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, true)?)
}

/// Receives a message, with its sender as the kernel reports it. Returns the length of the message, or `None`
/// if there is no message now. A message without a sender counts as one of process 0 and of no user.
/// Files in the message are closed.
///
/// # Errors
/// If the socket is broken.
pub fn receive_from(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<(usize, Peer)>> {
    #[repr(C)]
    struct Control {
        head: libc::cmsghdr,
        peer: Peer,
        room: [u64; 4],
    }
    let unknown = Peer { tgid: 0, uid: u32::MAX, gid: u32::MAX };
    // SAFETY: all its fields are numbers, for which zero is valid.
    let mut control: Control = unsafe { mem::zeroed() };
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: as above; null pointers are valid, too, and stand for absent parts.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = mem::size_of::<Control>();
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the message has pointers to live memory, with the right lengths.
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
    Ok(Some((count, if is_credentials { control.peer } else { unknown })))
}

/// Closes descriptors that came with a message.
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
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn the_kernel_names_the_sender() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        refuse_files(ours.as_fd());
        let mut bytes = [0; 8];
        assert!(matches!(receive_from(ours.as_fd(), &mut bytes), Ok(None)));
        theirs.send(b"one").unwrap();
        let (count, unknown) = receive_from(ours.as_fd(), &mut bytes).unwrap().unwrap();
        assert_eq!((&bytes[..count], unknown.tgid, unknown.uid), (&b"one"[..], 0, u32::MAX));
        ask_for_credentials(ours.as_fd()).unwrap();
        theirs.send(b"two").unwrap();
        let (count, peer) = receive_from(ours.as_fd(), &mut bytes).unwrap().unwrap();
        assert_eq!((&bytes[..count], peer.tgid), (&b"two"[..], std::process::id()));
    }
}
