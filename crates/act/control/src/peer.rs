//! The process and the user at the other end of a socket, as the kernel reports them.

use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt};

/// The process at the other end of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The process' number; 0 if the process has no number in this PID name space.
    pub tgid: u32,
    /// The process' user.
    pub uid: u32,
}

/// The process that connected to the socket, or that opened the socket to which this process connected;
/// `None` if the kernel does not report it.
pub fn of(stream: &UnixStream) -> Option<Peer> {
    let peer = getsockopt(stream, sockopt::PeerCredentials).ok()?;
    Some(Peer { tgid: peer.pid() as u32, uid: peer.uid() })
}
