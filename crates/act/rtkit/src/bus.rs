//! The connection to the bus.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use crate::wire::{self, Kind, MESSAGE_MAX, Malformed, Message, PREFIX, Sent, Values};

/// The system bus, unless the environment names another.
const ADDRESS: &str = "unix:path=/run/dbus/system_bus_socket";
/// How long the bus may take for an answer of its own, or to take a message.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many calls may wait while the bus is asked; further ones are not answered.
const WAITING: usize = 64;
/// So many callers are remembered.
const KNOWN: usize = 512;
/// The longest line of the bus' greeting, bytes.
const LINE_MAX: usize = 256;

/// The name was not had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Another program has it.
    Taken,
    /// The bus' rules forbid it.
    Denied,
}

/// The process at the other end of a connection, as the bus knows it.
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
    /// How many bytes of a message that is too long are still to come.
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
    /// Says as which user this process connects, and begins.
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
    pub fn take_name(&mut self, name: &str) -> io::Result<Result<(), Refused>> {
        const DO_NOT_QUEUE: u32 = 4;
        let answer = self.ask("RequestName", &Values::default().text(name).u32(DO_NOT_QUEUE))?;
        Ok(match (answer.kind, answer.body().u32()) {
            (Kind::Return, Ok(1 | 4)) => Ok(()),
            (Kind::Return, _) => Err(Refused::Taken),
            _ => Err(Refused::Denied),
        })
    }

    /// Which process sent a message: the bus says it, and no message.
    ///
    /// # Errors
    /// If the bus does not answer; `Ok(None)` if the sender has gone.
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
        // The bus gives the name of a connection to no other one.
        if self.callers.len() >= KNOWN {
            self.callers.clear();
        }
        self.callers.insert(sender.to_owned(), Caller { uid, tgid });
        Ok(Some(Caller { uid, tgid }))
    }

    /// Asks the bus itself. Calls that come meanwhile wait.
    fn ask(&mut self, member: &str, values: &Values) -> io::Result<Message> {
        let serial = self.send(Sent::ToBus { member }, values)?;
        loop {
            let message = self.receive()?;
            match message.kind {
                Kind::Return | Kind::Error if message.answers == serial => return Ok(message),
                Kind::Call if self.waiting.len() < WAITING => self.waiting.push_back(message),
                Kind::Call | Kind::Return | Kind::Error | Kind::Signal => {}
            }
        }
    }

    /// The next call that is there now; waits only for the rest of a message that has begun.
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

    /// Sends a message, and returns its number.
    ///
    /// # Errors
    /// If the bus does not take it.
    pub fn send(&mut self, sent: Sent<'_>, values: &Values) -> io::Result<u32> {
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

    /// Takes a whole message off what was received. What is longer than messages are here, or is none, is
    /// passed over.
    fn whole(&mut self) -> io::Result<Option<Message>> {
        while let Some(prefix) = self.received.first_chunk::<PREFIX>() {
            let broken = |_: Malformed| io::Error::from(io::ErrorKind::InvalidData);
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
