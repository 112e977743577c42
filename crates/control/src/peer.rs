//! Who is at the other end of a socket, as the kernel knows it.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// A process at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The process; 0 if it is of a name space that has no number for it here.
    pub tgid: u32,
    /// Its user.
    pub uid: u32,
}

/// Who connected, or opened the socket that was connected to; `None` where the kernel does not tell.
pub fn of(stream: &UnixStream) -> Option<Peer> {
    // A `struct ucred`: process, user, group.
    let mut peer = [0_u32; 3];
    let mut size = size_of_val(&peer) as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes into `peer`, which both outlive the call.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    let [tgid, uid, _] = peer;
    (done == 0).then_some(Peer { tgid, uid })
}
