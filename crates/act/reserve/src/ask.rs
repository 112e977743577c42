//! Sends a question to the daemon, one line of JSON, and reads the answer, one line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::{Error, SOCKET_DEFAULT, SOCKET_VARIABLE};

/// How long the daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer, bytes.
const ANSWER_MAX: u64 = 4 << 20;

/// The daemon's answer to a question.
pub(crate) fn ask(question: &Value) -> Result<Value, Error> {
    let named = std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty());
    let socket = named.map_or_else(|| PathBuf::from(SOCKET_DEFAULT), PathBuf::from);
    let mut stream = connect(&socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{question}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).take(ANSWER_MAX).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let answer: Value = serde_json::from_str(&line).map_err(|_| Error::Unexpected)?;
    match answer["error"]["text"].as_str() {
        Some(text) => Err(Error::Refused(text.to_owned())),
        None => Ok(answer),
    }
}

/// Connects to root's own socket if this user may open it, else to the socket for all users.
fn connect(socket: &Path) -> Result<UnixStream, Error> {
    let mut root = socket.as_os_str().to_owned();
    root.push(".root");
    let connected = UnixStream::connect(Path::new(&root)).or_else(|_| UnixStream::connect(socket));
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Error::NoDaemon(socket.to_owned()),
        io::ErrorKind::PermissionDenied => Error::Denied(socket.to_owned()),
        _ => Error::Io(error),
    })
}
