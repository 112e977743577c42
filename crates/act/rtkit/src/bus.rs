//! The connection to the bus.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::wire::{self, Kind, MESSAGE_MAX, MalformedMessage, Message, OutgoingMessage, PREFIX, Values};

/// The system bus, unless the environment names another.
const ADDRESS: &str = "unix:path=/run/dbus/system_bus_socket";
/// How long the bus may take to answer a call, or to accept a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most calls that are kept while this process waits for an answer of the bus; others get no answer.
const WAITING: usize = 64;
/// The size of the cache of callers; a full cache is cleared.
const KNOWN: usize = 512;
/// The longest line of the handshake with the bus, bytes.
const LINE_MAX: usize = 256;

/// Why the bus did not give this process the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameRefusal {
    /// Another program has the name.
    Taken,
    /// The bus' policy forbids it.
    Denied,
}

/// The process at the other end of a connection, as the bus reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    pub uid: u32,
    pub tgid: u32,
}

/// The connection.
#[derive(Debug)]
pub struct Bus {
    stream: UnixStream,
    received: Vec<u8>,
    /// How many bytes of a message that is too long are still to be skipped.
    passed_over: usize,
    waiting: VecDeque<Message>,
    callers: BTreeMap<String, Caller>,
    serial: u32,
}

/// Connects to the bus of an address; the system's if it is `None`. Nothing is read yet.
///
/// # Errors
/// If there is no bus.
pub fn connect(address: Option<&str>) -> io::Result<UnixStream> {
    let address = address.unwrap_or(ADDRESS);
    let places = address.split(';').filter_map(|one| one.strip_prefix("unix:"));
    let mut failed = io::Error::from(io::ErrorKind::InvalidInput);
    for (key, value) in places.flat_map(|one| one.split(',')).filter_map(|pair| pair.split_once('=')) {
        let place = match key {
            "path" => SocketAddr::from_pathname(value),
            "abstract" => SocketAddr::from_abstract_name(value),
            _ => continue,
        };
        match place.and_then(|place| UnixStream::connect_addr(&place)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Bus {
    /// Authenticates this process as a user, and begins the connection.
    ///
    /// # Errors
    /// If the bus refuses, or does not answer.
    pub fn greet(mut stream: UnixStream, uid: u32) -> io::Result<Bus> {
        let digits = uid.to_string().bytes().map(|digit| format!("{digit:02x}")).collect::<String>();
        stream.write_all(format!("\0AUTH EXTERNAL {digits}\r\n").as_bytes())?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") && line.len() < LINE_MAX {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        if !line.starts_with(b"OK ") {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        stream.write_all(b"BEGIN\r\n")?;
        let mut bus = Bus {
            stream,
            received: Vec::new(),
            passed_over: 0,
            waiting: VecDeque::new(),
            callers: BTreeMap::new(),
            serial: 0,
        };
        bus.ask("Hello", &Values::default())?;
        Ok(bus)
    }

    /// Takes a name.
    ///
    /// # Errors
    /// If the bus does not answer; `Ok(Err(..))` if it refuses.
    pub fn take_name(&mut self, name: &str) -> io::Result<Result<(), NameRefusal>> {
        const DO_NOT_QUEUE: u32 = 4;
        let answer = self.ask("RequestName", &Values::default().text(name).u32(DO_NOT_QUEUE))?;
        Ok(match (answer.kind, answer.body().u32()) {
            (Kind::Return, Ok(1 | 4)) => Ok(()),
            (Kind::Return, _) => Err(NameRefusal::Taken),
            _ => Err(NameRefusal::Denied),
        })
    }

    /// The process that sent a message. Only the bus' report of it counts, not the contents of the message.
    ///
    /// # Errors
    /// If the bus does not answer; `Ok(None)` if the sender has disconnected.
    pub fn caller(&mut self, sender: &str) -> io::Result<Option<Caller>> {
        if let Some(&caller) = self.callers.get(sender) {
            return Ok(Some(caller));
        }
        let mut number = |member| -> io::Result<Option<u32>> {
            let answer = self.ask(member, &Values::default().text(sender))?;
            let is_number = answer.kind == Kind::Return && answer.signature == "u";
            Ok(if is_number { answer.body().u32().ok() } else { None })
        };
        let uid = number("GetConnectionUnixUser")?;
        let tgid = number("GetConnectionUnixProcessID")?;
        let (Some(uid), Some(tgid)) = (uid, tgid) else { return Ok(None) };
        // The bus gives the unique name of a connection to no other connection, so entries stay valid.
        if self.callers.len() >= KNOWN {
            self.callers.clear();
        }
        self.callers.insert(sender.to_owned(), Caller { uid, tgid });
        Ok(Some(Caller { uid, tgid }))
    }

    /// Calls a method of the bus itself, and waits for the answer. Calls that come meanwhile are queued.
    fn ask(&mut self, member: &str, values: &Values) -> io::Result<Message> {
        let serial = self.send(OutgoingMessage::ToBus { member }, values)?;
        loop {
            let message = self.receive()?;
            match message.kind {
                Kind::Return | Kind::Error if message.answers == serial => return Ok(message),
                Kind::Call if self.waiting.len() < WAITING => self.waiting.push_back(message),
                Kind::Call | Kind::Return | Kind::Error | Kind::Signal => {}
            }
        }
    }

    /// The next call that has arrived as a whole; `None` if there is none. It does not wait.
    ///
    /// # Errors
    /// If the bus has ended.
    pub fn next_call(&mut self) -> io::Result<Option<Message>> {
        if let Some(message) = self.waiting.pop_front() {
            return Ok(Some(message));
        }
        loop {
            if let Some(message) = self.whole()? {
                if message.kind == Kind::Call {
                    return Ok(Some(message));
                }
            } else if !spry_sys::poll::is_ready(&self.stream) {
                return Ok(None);
            } else {
                self.read_more()?;
            }
        }
    }

    /// Sends a message, and returns its serial number.
    ///
    /// # Errors
    /// If the bus does not accept the message in time.
    pub fn send(&mut self, sent: OutgoingMessage<'_>, values: &Values) -> io::Result<u32> {
        self.serial = self.serial.wrapping_add(1).max(1);
        self.stream.write_all(&wire::written(self.serial, sent, values))?;
        Ok(self.serial)
    }

    fn receive(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(message);
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                let over = count.min(self.passed_over);
                self.passed_over -= over;
                self.received.extend_from_slice(&bytes[over..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes the first whole message out of the received bytes. Messages that are malformed or longer than
    /// [`MESSAGE_MAX`] are skipped; a length that cannot be is an error.
    fn whole(&mut self) -> io::Result<Option<Message>> {
        while let Some(prefix) = self.received.first_chunk::<PREFIX>() {
            let broken = |_: MalformedMessage| io::Error::from(io::ErrorKind::InvalidData);
            let length = wire::length(prefix).map_err(broken)?;
            if length > MESSAGE_MAX {
                let there = length.min(self.received.len());
                self.received.drain(..there);
                self.passed_over = length - there;
                continue;
            }
            if self.received.len() < length {
                return Ok(None);
            }
            let rest = self.received.split_off(length);
            let bytes = std::mem::replace(&mut self.received, rest);
            if let Ok(message) = Message::read(&bytes) {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

impl AsFd for Bus {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
