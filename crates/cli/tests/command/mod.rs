//! The command `spry` with bytes in a pipe as its standard input.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs Spry with these bytes in a pipe as its standard input.
pub fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spry"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spry starts");
    let mut pipe = child.stdin.take().expect("it is a pipe");
    let input = input.to_owned();
    // Spry may end before it has read everything.
    let writing = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let output = child.wait_with_output().expect("spry ends");
    writing.join().expect("the pipe was written");
    output
}
