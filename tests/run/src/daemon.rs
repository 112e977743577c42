//! A daemon that answers one question of a client and ends, so that the client loses it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::{JoinHandle, spawn};

/// Listens at a socket, writes this line as the answer to the first question, and closes the connection. The
/// client's next question finds no reader once the thread has ended.
///
/// # Panics
/// If the socket cannot be made. The thread panics if no question comes through the first connection.
pub fn answer_once(socket: &Path, answer: &str) -> JoinHandle<()> {
    let listener = UnixListener::bind(socket).expect("a socket");
    let answer = format!("{answer}\n");
    spawn(move || {
        let mut stream = BufReader::new(listener.accept().expect("a client").0);
        stream.read_line(&mut String::new()).expect("a question");
        stream.get_mut().write_all(answer.as_bytes()).expect("the client reads the answer");
    })
}
