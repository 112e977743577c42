//! The control socket: who is connected, what they ask, and that nobody asks for too much.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spry_control::peer::{self, Peer};
use spry_control::{Answer, REQUEST_MAX, Refusal, RefusalKind, Request};

/// Connections at once; the last ones are kept for root.
const CONNECTIONS_MAX: usize = 64;
const CONNECTIONS_FOR_ROOT: usize = 8;
/// Connections of one user who is not root.
const CONNECTIONS_OF_ONE: usize = 8;
/// The daemon's time in a second for questions of one user who is not root, ns: it runs before everybody, so nobody may
/// make it work for long.
const TIME_OF_ONE_NS: u64 = 10_000_000;
/// What reading a question costs at least, ns.
const QUESTION_NS: u64 = 50_000;
/// Bytes waiting for a slow reader, beyond which it is cut off.
const UNREAD_MAX: usize = 4 << 20;

const SECOND_NS: u64 = 1_000_000_000;

/// A connection's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Caller(u64);

/// A question, and who asks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// Whom to answer.
    pub caller: Caller,
    /// Their user, as the kernel knows it.
    pub uid: u32,
    /// What they ask.
    pub request: Request,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    uid: u32,
    received: Vec<u8>,
    unsent: Vec<u8>,
    is_watching: bool,
    is_over: bool,
}

/// The daemon's time that one user took in one second.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    second: u64,
    spent_ns: u64,
}

/// The listening socket and everybody who is connected. It is gone from the file system when dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    connections: BTreeMap<Caller, Connection>,
    budgets: BTreeMap<u32, Budget>,
    next: u64,
}

impl Server {
    /// Listens. What a daemon that was killed left there is replaced; the caller has made sure that none lives.
    ///
    /// # Errors
    /// Where the socket cannot be made.
    pub fn listen(path: &Path) -> Result<Server> {
        let cannot = || format!("cannot listen at {}", path.display());
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(cannot),
            _ => {}
        }
        let listener = UnixListener::bind(path).with_context(cannot)?;
        listener.set_nonblocking(true).with_context(cannot)?;
        // Everybody may look; what may be changed is decided for each question.
        fs::set_permissions(path, Permissions::from_mode(0o666)).with_context(cannot)?;
        Ok(Server {
            listener,
            path: path.to_owned(),
            connections: BTreeMap::new(),
            budgets: BTreeMap::new(),
            next: 0,
        })
    }

    /// What to wait for.
    pub fn polls(&self) -> impl Iterator<Item = libc::pollfd> {
        let listener = libc::pollfd { fd: self.listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let clients = self.connections.values().map(|connection| {
            let writes = if connection.unsent.is_empty() { 0 } else { libc::POLLOUT };
            let reads = if connection.is_over { 0 } else { libc::POLLIN };
            libc::pollfd { fd: connection.stream.as_raw_fd(), events: reads | writes, revents: 0 }
        });
        std::iter::once(listener).chain(clients)
    }

    /// Lets new callers in, reads what is there, and returns the questions. `now_ns` is for budgets.
    pub fn questions(&mut self, now_ns: u64) -> Vec<Question> {
        while let Ok((stream, _)) = self.listener.accept() {
            self.admit(stream);
        }
        let callers: Vec<Caller> = self.connections.keys().copied().collect();
        let mut questions = Vec::new();
        for caller in callers {
            self.flush(caller);
            while let Some(line) = self.line(caller) {
                questions.extend(self.question(caller, &line, now_ns));
            }
        }
        self.connections.retain(|_, connection| !(connection.is_over && connection.unsent.is_empty()));
        questions
    }

    /// Answers; what the caller does not take at once waits for it.
    pub fn answer(&mut self, caller: Caller, answer: &Answer) {
        let Some(connection) = self.connections.get_mut(&caller) else { return };
        let Ok(line) = serde_json::to_vec(answer) else { return };
        connection.unsent.extend_from_slice(&line);
        connection.unsent.push(b'\n');
        self.flush(caller);
    }

    /// From now on the caller gets a status each second.
    pub fn watch(&mut self, caller: Caller) {
        if let Some(connection) = self.connections.get_mut(&caller) {
            connection.is_watching = true;
        }
    }

    /// Who watches, and has taken what it was sent.
    pub fn watchers(&self) -> Vec<(Caller, u32)> {
        let ready = |(&caller, connection): (&Caller, &Connection)| {
            (connection.is_watching && connection.unsent.is_empty()).then_some((caller, connection.uid))
        };
        self.connections.iter().filter_map(ready).collect()
    }

    fn admit(&mut self, stream: UnixStream) {
        // Who cannot be told, or comes when there is no room, finds the connection closed.
        let Some(Peer { uid, .. }) = peer::of(&stream) else { return };
        let of_one = self.connections.values().filter(|connection| connection.uid == uid).count();
        let room = if uid == 0 { CONNECTIONS_MAX } else { CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT };
        let is_welcome = self.connections.len() < room && (uid == 0 || of_one < CONNECTIONS_OF_ONE);
        if !is_welcome || stream.set_nonblocking(true).is_err() {
            return;
        }
        self.next += 1;
        let (received, unsent) = (Vec::new(), Vec::new());
        let connection = Connection { stream, uid, received, unsent, is_watching: false, is_over: false };
        self.connections.insert(Caller(self.next), connection);
    }

    /// The next whole line of a caller.
    fn line(&mut self, caller: Caller) -> Option<Vec<u8>> {
        let connection = self.connections.get_mut(&caller)?;
        loop {
            if let Some(end) = connection.received.iter().position(|&byte| byte == b'\n') {
                let rest = connection.received.split_off(end + 1);
                return Some(std::mem::replace(&mut connection.received, rest));
            }
            if connection.received.len() > REQUEST_MAX {
                connection.is_over = true;
            }
            if connection.is_over {
                return None;
            }
            let mut bytes = [0; 1024];
            match connection.stream.read(&mut bytes) {
                Ok(0) => connection.is_over = true,
                Ok(read) => connection.received.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => connection.is_over = true,
            }
        }
    }

    fn question(&mut self, caller: Caller, line: &[u8], now_ns: u64) -> Option<Question> {
        let uid = self.connections.get(&caller)?.uid;
        self.spent(uid, QUESTION_NS, now_ns);
        if !self.has_time_for(uid, now_ns) {
            self.refuse(caller, RefusalKind::Busy, "too many questions in this second: ask again later");
            return None;
        }
        match serde_json::from_slice(line) {
            Ok(request) => Some(Question { caller, uid, request }),
            Err(error) => {
                self.refuse(caller, RefusalKind::Malformed, &format!("this is no question: {error}"));
                None
            }
        }
    }

    /// Whether a user may be worked for at this time.
    pub fn has_time_for(&self, uid: u32, now_ns: u64) -> bool {
        let budget = self.budgets.get(&uid).filter(|budget| budget.second == now_ns / SECOND_NS);
        uid == 0 || budget.is_none_or(|budget| budget.spent_ns < TIME_OF_ONE_NS)
    }

    /// Time was spent on a user.
    pub fn spent(&mut self, uid: u32, spent_ns: u64, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        self.budgets.retain(|_, budget| budget.second == second);
        self.budgets.entry(uid).or_insert(Budget { second, spent_ns: 0 }).spent_ns += spent_ns;
    }

    fn refuse(&mut self, caller: Caller, kind: RefusalKind, text: &str) {
        self.answer(caller, &Answer::Error(Refusal { kind, text: text.to_owned() }));
    }

    fn flush(&mut self, caller: Caller) {
        let Some(connection) = self.connections.get_mut(&caller) else { return };
        while !connection.unsent.is_empty() {
            match connection.stream.write(&connection.unsent) {
                Ok(0) => break,
                Ok(sent) => drop(connection.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    connection.is_over = true;
                    connection.unsent.clear();
                }
            }
        }
        if connection.unsent.len() > UNREAD_MAX {
            connection.is_over = true;
            connection.unsent.clear();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
    }
}
