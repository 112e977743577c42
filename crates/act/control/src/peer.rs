//! The process and the user at the other end of a socket, as the kernel knows them.

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};

/// The process at the other end of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The process' number; 0 if the process is in a name space whose processes have no number here.
    pub tgid: u32,
    /// The process' user.
    pub uid: u32,
}

/// The process at the other end of a socket: the process that connected, or that opened the socket that was
/// connected to; `None` where the kernel does not tell.
pub fn of(stream: &UnixStream) -> Option<Peer> {
    let peer = getsockopt(stream, sockopt::PeerCredentials).ok()?;
    Some(Peer { tgid: peer.pid() as u32, uid: peer.uid() })
}
