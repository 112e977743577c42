//! Keeps a daemon busy as an ordinary user may, until it is killed. `besiege SOCKET CONNECTIONS`: each thread
//! connects, sends empty lines, questions and noise without end, and reads nothing. When the daemon closes
//! the connection, the thread connects again.
//! `besiege displays FIRST COUNT`: makes sockets of displays, listens at them, and removes them, again and
//! again.
//! `besiege listen NUMBER -auth FILE`: listens as a display's server, has the file open, and answers nothing.
//! `besiege bytes SOCKET`: sends single bytes over eight connections, without end.
//! `besiege files SOCKET REPORTS`: sends messages to both sockets without end, and with each message a TCP
//! connection that lingers when it is closed.

use std::fs;
use std::io::{IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};

/// The bytes that each connection sends, chosen by the number of the connection.
const SENT: [&[u8]; 4] =
    [b"\n\n\n\n\n\n\n\n", b"{\"ask\":\"status\"}\n", b"{\"ask\":\"watch\"}\n", b"[[[[[[[[[[[[[[[[{\"ask\":"];

fn main() {
    let mut args = std::env::args().skip(1);
    let socket = args.next().expect("SOCKET");
    if socket == "displays" {
        let mut number = || args.next().expect("a number").parse().expect("a number");
        let (first, count): (u32, u32) = (number(), number());
        loop {
            let made: Vec<(String, Option<UnixListener>)> = (first..first + count)
                .map(|number| {
                    let path = format!("/tmp/.X11-unix/X{number}");
                    let listener = UnixListener::bind(&path).ok();
                    (path, listener)
                })
                .collect();
            thread::sleep(Duration::from_micros(500));
            for (path, _listener) in made {
                _ = fs::remove_file(path);
            }
        }
    }
    if socket == "listen" {
        let path = format!("/tmp/.X11-unix/X{}", args.next().expect("NUMBER"));
        let _file = fs::File::open(args.nth(1).expect("FILE")).expect("it is there");
        let _listener = UnixListener::bind(path).expect("no other display has the number");
        loop {
            thread::park();
        }
    }
    if socket == "bytes" {
        return send_bytes(&args.next().expect("SOCKET"));
    }
    if socket == "files" {
        return send_files(&args.next().expect("SOCKET"), &args.next().expect("REPORTS"));
    }
    let connections: usize = args.next().expect("CONNECTIONS").parse().expect("a number");
    thread::scope(|scope| {
        for number in 0..connections {
            let (socket, sent) = (&socket, SENT[number % SENT.len()].repeat(64));
            let besieger = move || loop {
                let Ok(mut stream) = UnixStream::connect(socket) else {
                    thread::yield_now();
                    continue;
                };
                while stream.write_all(&sent).is_ok() {}
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, besieger).expect("a thread");
        }
    });
}

fn send_bytes(socket: &str) {
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Ok(mut stream) = UnixStream::connect(socket) else { continue };
                    while stream.write_all(b" ").is_ok() {
                        thread::yield_now();
                    }
                }
            });
        }
    });
}

/// A TCP connection: closing its last descriptor waits for 100 s, as the other end reads nothing.
fn lingering(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut stream = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
    let (other, _) = listener.accept().expect("it comes");
    let linger = libc::linger { l_onoff: 1, l_linger: 100 };
    setsockopt(&stream, sockopt::Linger, &linger).expect("TCP lingers");
    stream.set_nonblocking(true).expect("it is ours");
    while stream.write(&[0; 65_536]).is_ok() {}
    (stream, other)
}

fn send_files(socket: &str, reports: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of this machine");
    // There are only a few such connections, because each needs memory. The same connections are sent again
    // and again.
    let files: Vec<_> = (0..8).map(|_| lingering(&listener)).collect();
    let reporter = UnixDatagram::unbound().expect("a socket");
    reporter.set_nonblocking(true).expect("it is ours");
    loop {
        let stream = UnixStream::connect(socket);
        for (file, _) in &files {
            let numbers = [file.as_raw_fd()];
            let along = [ControlMessage::ScmRights(&numbers)];
            let text = [IoSlice::new(b"{\n")];
            if let Ok(stream) = &stream {
                // If the kernel lets sockets refuse files, the message is refused; the test is about the
                // process that reads.
                _ = sendmsg::<()>(stream.as_raw_fd(), &text, &along, MsgFlags::MSG_DONTWAIT, None);
            }
            if reporter.connect(reports).is_ok() {
                _ = sendmsg::<()>(reporter.as_raw_fd(), &text, &along, MsgFlags::MSG_DONTWAIT, None);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}
