//! The trick `flood`: the process is in use for a moment, and then keeps the daemon from seeing that
//! the use is over.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use crate::{Outcome, x11};

const QUESTIONS: &str = "/run/spry/sched.sock";
const REPORTS: &str = "/run/spry/report.sock";
/// A user may have this many connections to the daemon.
const CONNECTIONS: usize = 8;

pub fn flood() -> Outcome<()> {
    x11::be_seen(Duration::from_secs(2))?;
    for _ in 0..CONNECTIONS {
        thread::spawn(|| forever(ask));
    }
    thread::spawn(|| forever(report));
    thread::spawn(|| forever(pretend));
    Ok(())
}

fn forever(again: fn() -> Outcome<()>) {
    loop {
        // If the daemon refuses, the process tries again.
        if again().is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Asks questions on one connection, as long as the connection exists.
fn ask() -> Outcome<()> {
    let mut stream = UnixStream::connect(QUESTIONS)?;
    let mut answer = vec![0; 1 << 16];
    loop {
        stream.write_all(b"{\"ask\":\"status\"}\n")?;
        if stream.read(&mut answer)? == 0 {
            return Ok(());
        }
    }
}

fn report() -> Outcome<()> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(REPORTS)?;
    loop {
        socket.send(b"server\nself 50 5\n")?;
    }
}

/// Makes displays that come and go.
fn pretend() -> Outcome<()> {
    for number in 20..40 {
        let path = format!("/tmp/.X11-unix/X{number}");
        let listener = UnixListener::bind(&path)?;
        thread::sleep(Duration::from_millis(1));
        drop(listener);
        fs::remove_file(&path)?;
    }
    Ok(())
}
