//! Threads with different habits, which compete for the CPUs for some seconds and then all wait, so that
//! their accounts stand still.
//!
//! usage: busy SECONDS       prints "done" when all work is over, and ends when its standard input does
//!
//! The account of a running thread in /proc grows only at ticks; the account of a waiting thread is exact.

use std::env;
use std::hint;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::panic;
use std::process;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let seconds: u64 = env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: busy SECONDS");
    // A failed thread must not leave the other threads waiting for it.
    panic::set_hook(Box::new(|failure| {
        eprintln!("busy: {failure}");
        process::abort();
    }));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (ping, pong) = UnixStream::pair().expect("a pair of sockets");
    let habits: Vec<Box<dyn FnOnce() + Send>> = vec![
        Box::new(move || spin_until(end)),
        Box::new(move || spin_until(end)),
        Box::new(move || frames(end, Duration::from_millis(3), Duration::from_millis(17))),
        Box::new(move || frames(end, Duration::from_micros(200), Duration::from_micros(300))),
        Box::new(move || yields(end)),
        Box::new(move || exchange(&ping, end, Turn::First)),
        Box::new(move || exchange(&pong, end, Turn::Second)),
    ];
    let over = Arc::new(Barrier::new(habits.len() + 1));
    for habit in habits {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            habit();
            over.wait();
            // The thread waits here until the process ends.
            loop {
                thread::park();
            }
        });
    }
    over.wait();
    println!("done");
    io::stdout().flush().expect("standard output takes a line");
    io::stdin().read_to_end(&mut Vec::new()).expect("standard input can be read");
}

fn spin_until(end: Instant) {
    while Instant::now() < end {
        hint::spin_loop();
    }
}

fn frames(end: Instant, work: Duration, rest: Duration) {
    while Instant::now() < end {
        spin_until(Instant::now() + work);
        thread::sleep(rest);
    }
}

fn yields(end: Instant) {
    while Instant::now() < end {
        spin_until(Instant::now() + Duration::from_micros(50));
        thread::yield_now();
    }
}

enum Turn {
    First,
    Second,
}

/// Passes a byte to and fro. The side that first finds that the time is over sends a zero, so that the other
/// side ends, too.
fn exchange(mut stream: &UnixStream, end: Instant, turn: Turn) {
    if matches!(turn, Turn::First) {
        stream.write_all(&[1]).expect("the other end is open");
    }
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).expect("the other end is open");
        if byte == [0] {
            return;
        }
        let over = Instant::now() >= end;
        stream.write_all(&[u8::from(!over)]).expect("the other end is open");
        if over {
            return;
        }
    }
}
