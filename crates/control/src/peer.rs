//! Who is at the other end of a socket, as the kernel knows it.

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};

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
    let peer = getsockopt(stream, sockopt::PeerCredentials).ok()?;
    Some(Peer { tgid: peer.pid() as u32, uid: peer.uid() })
}
