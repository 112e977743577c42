//! The process that listens at a display's socket, as the kernel reports it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::sys::socket::{getsockopt, sockopt};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use spry_policy::Tgid;
use spry_sys::{poll, process};

use crate::places;

/// A process that listens. After it has ended, another process may get its number, but the descriptor never
/// means another process.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    pub(super) tgid: Tgid,
    /// The user that the process had when it began to listen.
    pub(super) uid: u32,
    process: Arc<OwnedFd>,
}

impl Listener {
    /// Asks the kernel which process listens at a display's socket. Nothing is read from the socket, and the
    /// call does not wait.
    pub(super) fn of(number: u32) -> io::Result<Listener> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The socket's own file is opened: a link in its place is not followed.
        let found = places::Socket::open(number)?;
        connect(&socket, &SocketAddrUnix::new(format!("/proc/self/fd/{}", found.as_raw_fd()))?)?;
        let peer = getsockopt(&socket, sockopt::PeerCredentials)?;
        let process = match getsockopt(&socket, sockopt::PeerPidfd) {
            Ok(process) => process,
            // Kernels before 6.5 do not give out such a descriptor.
            Err(nix::errno::Errno::ENOPROTOOPT) => process::open(peer.pid().unsigned_abs())?,
            Err(error) => return Err(error.into()),
        };
        Ok(Listener { tgid: Tgid(peer.pid() as u32), uid: peer.uid(), process: Arc::new(process) })
    }

    /// A copy of the pidfd of the process, for the eyes that are started to look at it.
    pub(super) fn process(&self) -> io::Result<OwnedFd> {
        self.process.as_fd().try_clone_to_owned()
    }

    /// Whether the process has not ended yet.
    pub(super) fn lives(&self) -> bool {
        !poll::is_ready(&*self.process)
    }
}
