//! The smallest part of D-Bus that a caller needs: the calls `Hello` and `GetId` of the bus.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// The socket at which the contests' bus listens.
pub const ADDRESS: &str = "/tmp/bus";

/// The bus itself, which every call is for.
const PATH: &str = "/org/freedesktop/DBus";
const NAME: &str = "org.freedesktop.DBus";
const NEWS: &[u8] = b"NameAcquired";

/// A connection to the bus.
pub struct Bus {
    stream: UnixStream,
    serial: u32,
}

impl Bus {
    /// Connects as this process' user.
    pub fn connect() -> io::Result<Bus> {
        let mut stream = UnixStream::connect(ADDRESS)?;
        let uid = rustix::process::getuid().as_raw().to_string();
        let digits: String = uid.bytes().map(|digit| format!("{digit:02x}")).collect();
        stream.write_all(format!("\0AUTH EXTERNAL {digits}\r\n").as_bytes())?;
        let mut answer = [0; 256];
        let count = stream.read(&mut answer)?;
        if !answer[..count].starts_with(b"OK") {
            return Err(io::Error::other("the bus does not let this user in"));
        }
        stream.write_all(b"BEGIN\r\n")?;
        let mut bus = Bus { stream, serial: 0 };
        // After the answer the bus sends a signal with the caller's name. From then on each answer belongs to
        // its question.
        let mut heard = bus.call("Hello")?;
        while !heard.windows(NEWS.len()).any(|part| part == NEWS) {
            heard.extend(bus.hear()?);
        }
        Ok(bus)
    }

    /// Asks the bus for its number, and waits for the answer.
    pub fn ask(&mut self) -> io::Result<()> {
        self.call("GetId").map(drop)
    }

    fn call(&mut self, member: &str) -> io::Result<Vec<u8>> {
        self.serial += 1;
        self.stream.write_all(&message(self.serial, member))?;
        self.hear()
    }

    fn hear(&mut self) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; 4096];
        let count = self.stream.read(&mut answer)?;
        answer.truncate(count);
        if count == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
    }
}

/// A call without arguments: little-endian, of the first version.
fn message(serial: u32, member: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (code, sort, text) in [(1, b'o', PATH), (2, b's', NAME), (3, b's', member), (6, b's', NAME)] {
        pad(&mut fields);
        fields.extend([code, 1, sort, 0]);
        fields.extend((text.len() as u32).to_le_bytes());
        fields.extend(text.bytes().chain([0]));
    }
    let mut bytes = vec![b'l', 1, 0, 1];
    for number in [0, serial, fields.len() as u32] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(fields);
    pad(&mut bytes);
    bytes
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}
