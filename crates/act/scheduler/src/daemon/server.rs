//! The control socket: its connections, their requests, and limits on the requests of one user.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use spry_control::peer::{self, Peer};
use spry_control::{Answer, REQUEST_MAX, Refusal, RefusalKind, Request};
use spry_display::{Patience, People};
use spry_sys::message::refuse_files;
use spry_sys::poll::{PollFd, PollFlags};

/// The greatest number of connections, and the number of them that are reserved for root.
const CONNECTIONS_MAX: usize = 64;
const CONNECTIONS_FOR_ROOT: usize = 8;
/// The greatest number of connections of one user other than root.
const CONNECTIONS_OF_ONE: usize = 8;
/// The most callers that wait to be accepted; further callers wait in connect(). The kernel refuses the
/// waiting callers one by one when the daemon ends.
const BACKLOG: i32 = 64;
/// The daemon's time in a second that the requests of one user other than root may take, ns. The daemon runs
/// before other processes, so no user may make it work for long.
const TIME_OF_ONE_NS: u64 = 5_000_000;
/// The least that is charged, ns: for a request; for a turn of the daemon's loop in which a caller sent
/// anything; and for each byte.
const QUESTION_NS: u64 = 50_000;
const TURN_NS: u64 = 50_000;
const READ_NS_A_BYTE: u64 = 10;
/// The daemon's time in a second that the requests of all users other than root together may take, ns.
const TIME_OF_ALL_NS: u64 = 20_000_000;
/// The charge for accepting or refusing a connection, ns; and the limit of these charges in a second.
const ADMISSION_NS: u64 = 40_000;
const ADMITTING_NS: u64 = 2_000_000;
/// Limits for one turn of the daemon's loop: connections accepted; lines read for each caller; bytes read for
/// each caller. The rest waits for the next turn, so that signals and root's requests come between.
const ADMISSIONS_A_TURN: usize = 16;
const LINES_A_TURN: usize = 4;
const READ_A_TURN: usize = 4096;
/// The most unsent bytes for one user, and for all users together. Connections that exceed this are
/// closed.
const UNREAD_OF_ONE: usize = 4 << 20;
const UNREAD_OF_ALL: usize = 16 << 20;

const SECOND_NS: u64 = 1_000_000_000;

/// The number that identifies a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Caller(u64);

/// A request, and the user that sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The connection to which the answer goes.
    pub caller: Caller,
    /// The user of the caller, as the kernel reports it.
    pub uid: u32,
    /// The request that the caller sent.
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

/// The daemon's time that users took in one second.
#[derive(Clone, Debug, Default)]
struct SpentTime {
    second: u64,
    admitting_ns: u64,
    /// The time that users other than root took, ns: all together, and by person.
    users_ns: u64,
    by_person: BTreeMap<u32, u64>,
}

/// A listening socket. Dropping it removes it from the file system.
#[derive(Debug)]
struct Door {
    listener: UnixListener,
    path: PathBuf,
}

/// The listening sockets and all connections.
#[derive(Debug)]
pub struct Server {
    /// Root's own socket, so that root can connect however many users try to.
    roots: Door,
    everybodys: Door,
    connections: BTreeMap<Caller, Connection>,
    spent: SpentTime,
    next: u64,
    people: People,
    /// A time limit for closing connections, which may take long. It is dropped after the connections.
    patience: Patience,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.patience.begin();
        self.connections.clear();
    }
}

impl Door {
    fn open(path: PathBuf, mode: u32) -> Result<Door> {
        let cannot = || format!("cannot listen at {}", path.display());
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(cannot),
            _ => {}
        }
        let listener = UnixListener::bind(&path).with_context(cannot)?;
        rustix::net::listen(&listener, BACKLOG).with_context(cannot)?;
        listener.set_nonblocking(true).with_context(cannot)?;
        refuse_files(listener.as_fd());
        fs::set_permissions(&path, Permissions::from_mode(mode)).with_context(cannot)?;
        Ok(Door { listener, path })
    }

    fn poll(&self, events: PollFlags) -> PollFd<'_> {
        PollFd::new(&self.listener, events)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.path);
    }
}

impl Server {
    /// Listens at a path. A socket that a killed daemon left there is replaced. The caller has made sure that
    /// no other daemon runs.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn listen(path: &Path) -> Result<Server> {
        Ok(Server {
            // Every user may connect: each request is checked for whether the caller may change something.
            everybodys: Door::open(path.to_owned(), 0o666)?,
            roots: Door::open(spry_control::root_socket(path), 0o600)?,
            connections: BTreeMap::new(),
            spent: SpentTime::default(),
            next: 0,
            people: People::default(),
            patience: Patience::of_this_thread().context("cannot make a timer")?,
        })
    }

    /// The descriptors to wait for, in the second of `now_ns`. If a caller has used up its part of this
    /// second, it only receives answers that it has not taken yet. The daemon wakes at least once a second.
    pub fn polls(&self, now_ns: u64) -> impl Iterator<Item = PollFd<'_>> {
        let admits = if self.admits(now_ns) { PollFlags::IN } else { PollFlags::empty() };
        let doors = [self.roots.poll(PollFlags::IN), self.everybodys.poll(admits)];
        let clients = self.connections.values().filter_map(move |connection| {
            let writes = if connection.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let may_ask = !connection.is_over && self.has_time_for(connection.uid, now_ns);
            let reads = if may_ask { PollFlags::IN } else { PollFlags::empty() };
            // A connection without events is left out: it would report again and again that its
            // other end is closed.
            let events = reads | writes;
            (!events.is_empty()).then(|| PollFd::new(&connection.stream, events))
        });
        doors.into_iter().chain(clients)
    }

    /// Accepts connections, reads from callers, and returns their requests. The limits are for the second in
    /// which `now_ns` lies.
    pub fn questions(&mut self, now_ns: u64) -> Vec<Question> {
        self.begin_second(now_ns);
        self.people.refresh(Instant::now());
        self.patience.begin();
        while let Ok((stream, _)) = self.roots.listener.accept() {
            self.admit(stream, now_ns);
        }
        for _ in 0..ADMISSIONS_A_TURN {
            if !self.admits(now_ns) {
                break;
            }
            let Ok((stream, _)) = self.everybodys.listener.accept() else { break };
            let began = Instant::now();
            self.admit(stream, now_ns);
            self.spent.admitting_ns += ADMISSION_NS.max(since(began));
        }
        let questions = self.read(now_ns);
        let is_over = |connection: &Connection| connection.is_over && connection.unsent.is_empty();
        let over = self.connections.iter().filter(|(_, connection)| is_over(connection));
        for (caller, uid) in over.map(|(&caller, connection)| (caller, connection.uid)).collect::<Vec<_>>() {
            let began = Instant::now();
            self.connections.remove(&caller);
            self.spent(uid, since(began), now_ns);
        }
        self.patience.end();
        questions
    }

    /// Reads the requests that callers have sent.
    fn read(&mut self, now_ns: u64) -> Vec<Question> {
        let callers: Vec<(Caller, u32)> =
            self.connections.iter().map(|(&caller, connection)| (caller, connection.uid)).collect();
        let mut questions = Vec::new();
        for (caller, uid) in callers {
            self.flush(caller);
            let began = Instant::now();
            let mut room = READ_A_TURN;
            for _ in 0..LINES_A_TURN {
                if !self.has_time_for(uid, now_ns) {
                    break;
                }
                let Some(line) = self.line(caller, &mut room) else { break };
                questions.extend(self.question(caller, &line, now_ns));
            }
            // Bytes without an end of line are charged, too, since most of their cost is that
            // the daemon wakes.
            let count = (READ_A_TURN - room) as u64;
            let turn_ns = if count > 0 { TURN_NS + count * READ_NS_A_BYTE } else { 0 };
            self.spent(uid, turn_ns.max(since(began)), now_ns);
        }
        questions
    }

    fn begin_second(&mut self, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        if self.spent.second != second {
            self.spent = SpentTime { second, ..SpentTime::default() };
        }
    }

    /// Whether the socket for all users accepts connections now.
    fn admits(&self, now_ns: u64) -> bool {
        self.spent.second != now_ns / SECOND_NS || self.spent.admitting_ns < ADMITTING_NS
    }

    /// Sends an answer. Bytes that the caller does not take at once are kept until it takes them.
    pub fn answer(&mut self, caller: Caller, answer: &Answer) {
        let Some(connection) = self.connections.get_mut(&caller) else { return };
        let Ok(line) = serde_json::to_vec(answer) else { return };
        connection.unsent.extend_from_slice(&line);
        connection.unsent.push(b'\n');
        self.flush(caller);
    }

    /// Sends a status to the caller each second from now on.
    pub fn watch(&mut self, caller: Caller) {
        if let Some(connection) = self.connections.get_mut(&caller) {
            connection.is_watching = true;
        }
    }

    /// The connections that watch and have taken all that was sent to them, with their users.
    pub fn watchers(&self) -> Vec<(Caller, u32)> {
        let ready = |(&caller, connection): (&Caller, &Connection)| {
            (connection.is_watching && connection.unsent.is_empty()).then_some((caller, connection.uid))
        };
        self.connections.iter().filter_map(ready).collect()
    }

    fn admit(&mut self, stream: UnixStream, now_ns: u64) {
        // If the kernel does not report the caller's user, or there is no room, the connection is closed.
        let Some(Peer { uid, .. }) = peer::of(&stream) else { return };
        let of_one = self.connections.values().filter(|connection| self.is_same(connection.uid, uid)).count();
        let room = if uid == 0 { CONNECTIONS_MAX } else { CONNECTIONS_MAX - CONNECTIONS_FOR_ROOT };
        self.spent(uid, ADMISSION_NS, now_ns);
        let is_welcome = self.connections.len() < room && (uid == 0 || of_one < CONNECTIONS_OF_ONE);
        if !is_welcome || stream.set_nonblocking(true).is_err() {
            return;
        }
        self.next += 1;
        let (received, unsent) = (Vec::new(), Vec::new());
        let connection = Connection { stream, uid, received, unsent, is_watching: false, is_over: false };
        self.connections.insert(Caller(self.next), connection);
    }

    /// The next whole line of a caller. `room` is the number of bytes that may still be read for it.
    fn line(&mut self, caller: Caller, room: &mut usize) -> Option<Vec<u8>> {
        let connection = self.connections.get_mut(&caller)?;
        loop {
            if let Some(end) = connection.received.iter().position(|&byte| byte == b'\n') {
                let rest = connection.received.split_off(end + 1);
                return Some(std::mem::replace(&mut connection.received, rest));
            }
            if connection.received.len() > REQUEST_MAX {
                connection.is_over = true;
            }
            if connection.is_over || *room == 0 {
                return None;
            }
            let mut bytes = [0; 1024];
            let most = bytes.len().min(*room);
            match connection.stream.read(&mut bytes[..most]) {
                Ok(0) => connection.is_over = true,
                Ok(read) => {
                    *room -= read;
                    connection.received.extend_from_slice(&bytes[..read]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => connection.is_over = true,
            }
        }
    }

    fn question(&mut self, caller: Caller, line: &[u8], now_ns: u64) -> Option<Question> {
        let uid = self.connections.get(&caller)?.uid;
        self.spent(uid, QUESTION_NS, now_ns);
        // The first request beyond the limit in a second is refused. Further requests stay unread until the
        // next second.
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

    /// The person to which a user belongs, as the number of that person's first user.
    pub fn person(&self, uid: u32) -> u32 {
        self.people.person(uid)
    }

    /// Whether two users belong to one person: limits are for each person.
    fn is_same(&self, uid: u32, other: u32) -> bool {
        self.people.person(uid) == self.people.person(other)
    }

    /// Whether a user has daemon time left in the second of `now_ns`.
    pub fn has_time_for(&self, uid: u32, now_ns: u64) -> bool {
        if uid == 0 || self.spent.second != now_ns / SECOND_NS {
            return true;
        }
        let own_ns = self.spent.by_person.get(&self.people.person(uid)).copied().unwrap_or_default();
        own_ns < TIME_OF_ONE_NS && self.spent.users_ns < TIME_OF_ALL_NS
    }

    /// Charges a user for the daemon's time, ns.
    pub fn spent(&mut self, uid: u32, spent_ns: u64, now_ns: u64) {
        if uid == 0 {
            return;
        }
        self.begin_second(now_ns);
        self.spent.users_ns += spent_ns;
        *self.spent.by_person.entry(self.people.person(uid)).or_default() += spent_ns;
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
        let uid = connection.uid;
        let unread = |of: &dyn Fn(u32) -> bool| -> usize {
            let theirs = self.connections.values().filter(|connection| of(connection.uid));
            theirs.map(|connection| connection.unsent.len()).sum()
        };
        let is_too_much = unread(&|other| self.is_same(other, uid)) > UNREAD_OF_ONE
            || (uid != 0 && unread(&|_| true) > UNREAD_OF_ALL);
        if let Some(connection) = self.connections.get_mut(&caller).filter(|_| is_too_much) {
            connection.is_over = true;
            connection.unsent = Vec::new();
        }
    }
}

/// The time since `began`, ns.
fn since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
