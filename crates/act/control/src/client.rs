//! A client's connection to the daemon: it sends questions and reads the answers.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use spry_sys::process;

use crate::peer;
use crate::{Answer, Explanation, Refusal, Request, Reservations, Status};

/// How long the daemon may take to answer. The daemon answers between two rounds; under its own scheduler it
/// never waits long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a program got no answer from the daemon.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No daemon listens.
    #[error("no scheduler daemon is running (no answer at {}): start one with `spry sched run`, \
             or look first with `spry sched run --observe-only`", .0.display())]
    NoDaemon(PathBuf),
    /// The socket is closed to this user.
    #[error("{} does not let you in: ask as root, or as a member of the socket's group", .0.display())]
    Denied(PathBuf),
    /// The daemon is stopped by a signal.
    #[error(
        "the scheduler daemon ({tgid}) is stopped, and tasks go on under its last policy: \
         continue it with `kill -CONT {tgid}`"
    )]
    Stopped {
        /// The daemon's process.
        tgid: u32,
    },
    /// The daemon takes too long to answer.
    #[error("the scheduler daemon did not answer within {} s; tasks go on \
             under its last policy", PATIENCE.as_secs())]
    Silent,
    /// The daemon refuses the request.
    #[error("{}", .0.text)]
    Refused(Refusal),
    /// The daemon gave an answer that does not belong to the question.
    #[error("the scheduler daemon answered something else; are it and this program of the same version?")]
    Unexpected,
    /// The connection broke.
    #[error("the connection to the scheduler daemon broke: {0}")]
    Io(#[from] io::Error),
}

/// Connects to a socket. While the listener's queue is full, the call blocks, for [`PATIENCE`] at most.
/// Sending a question blocks for [`PATIENCE`] at most, too.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon at a socket.
    ///
    /// # Errors
    /// If no daemon listens there, or if the socket is closed to this user.
    pub fn connect(socket: &Path) -> Result<Client, ControlError> {
        // The socket for root is closed to other users: the kernel refuses their connection at once.
        let connected = connect(&crate::root_socket(socket)).or_else(|_| connect(socket));
        let stream = connected.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ControlError::NoDaemon(socket.to_owned())
            }
            io::ErrorKind::PermissionDenied => ControlError::Denied(socket.to_owned()),
            io::ErrorKind::WouldBlock => ControlError::Silent,
            _ => ControlError::Io(error),
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    /// Asks the daemon a question, and waits for the answer.
    ///
    /// # Errors
    /// If the daemon refuses, or does not answer.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, ControlError> {
        let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        self.hear()
    }

    /// Waits for one more answer of the daemon, after [`Request::Watch`].
    ///
    /// # Errors
    /// If the daemon refuses, or sends no answer in time.
    pub fn hear(&mut self) -> Result<Answer, ControlError> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Err(self.why_silent());
            }
            Err(error) => return Err(error.into()),
        }
        match serde_json::from_str(&line).map_err(|_| ControlError::Unexpected)? {
            Answer::Error(refusal) => Err(ControlError::Refused(refusal)),
            answer => Ok(answer),
        }
    }

    /// Asks the daemon for the status.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn status(&mut self) -> Result<Status, ControlError> {
        match self.ask(&Request::Status)? {
            Answer::Status(status) => Ok(*status),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Asks the daemon why a process is in use, or why not.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn explain(&mut self, tgid: u32) -> Result<Explanation, ControlError> {
        match self.ask(&Request::Explain { tgid })? {
            Answer::Explanation(explanation) => Ok(*explanation),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Asks the daemon for the reservations.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn reservations(&mut self) -> Result<Reservations, ControlError> {
        match self.ask(&Request::Reservations)? {
            Answer::Reservations(reservations) => Ok(reservations),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// The connection's file descriptor, for a caller that waits for the next status together
    /// with other things.
    pub fn fd(&self) -> i32 {
        self.stream.get_ref().as_raw_fd()
    }

    /// Why the daemon does not answer: it may have been stopped by a signal.
    fn why_silent(&self) -> ControlError {
        match peer::of(self.stream.get_ref()).map(|peer| peer.tgid) {
            Some(tgid) if is_stopped(tgid) => ControlError::Stopped { tgid },
            _ => ControlError::Silent,
        }
    }
}

fn is_stopped(tgid: u32) -> bool {
    let line = fs::read(format!("/proc/{tgid}/stat")).unwrap_or_default();
    process::state(&line) == Some(b'T')
}
