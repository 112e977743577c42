//! A shared server, and its clients: one thread serves all connections of a socket, in the order in which
//! they are ready.
//!
//! `service serve SOCKET` works for the CPU time that a request contains, and answers.
//! `service ask NAME SOCKET WORK_US PERIOD_US SECONDS [BEFORE_S]` sends a request in each period and waits
//! for the answer. It prints the latencies of the answers, except in the first BEFORE_S seconds (3).
//! `service flood SOCKET WORK_US SECONDS` sends requests without end, several of them unanswered.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use spry_sys::clock::{monotonic_ns, sleep_until, thread_cpu_ns};
use spry_sys::poll::{self, PollFd};

/// The most unanswered requests of a flood.
const AHEAD: usize = 64;

fn work(for_ns: u64) {
    let until_ns = thread_cpu_ns() + for_ns;
    while thread_cpu_ns() < until_ns {
        spry_attacks::work();
    }
}

fn serve(path: &str) -> Result<()> {
    let listener = UnixListener::bind(path).context("listening")?;
    let mut clients: Vec<UnixStream> = Vec::new();
    loop {
        let mut polls: Vec<PollFd<'_>> = vec![poll::readable(&listener)];
        polls.extend(clients.iter().map(poll::readable));
        poll::wait(&mut polls, None).context("waiting")?;
        let ready: Vec<bool> = polls.iter().map(|poll| !poll.revents().is_empty()).collect();
        let mut gone = Vec::new();
        for (at, client) in clients.iter_mut().enumerate().filter(|(at, _)| ready[at + 1]) {
            let mut request = [0; 8];
            match client.read_exact(&mut request) {
                Ok(()) => {
                    work(u64::from_le_bytes(request));
                    _ = client.write_all(&[1]);
                }
                Err(_) => gone.push(at),
            }
        }
        gone.into_iter().rev().for_each(|at| drop(clients.remove(at)));
        if ready[0] {
            clients.push(listener.accept().context("accepting")?.0);
        }
    }
}

fn connect(path: &str) -> Result<UnixStream> {
    for _ in 0..200 {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    bail!("no server at {path}")
}

fn ask(name: &str, path: &str, work_ns: u64, period_ns: u64, for_ns: u64, before_ns: u64) -> Result<()> {
    std::fs::write("/proc/self/comm", name).context("naming itself")?;
    let mut server = connect(path)?;
    let (began_ns, mut late) = (monotonic_ns(), Vec::new());
    let mut next_ns = began_ns;
    while next_ns - began_ns < for_ns {
        sleep_until(next_ns);
        let asked_ns = monotonic_ns();
        server.write_all(&work_ns.to_le_bytes())?;
        server.read_exact(&mut [0])?;
        let now_ns = monotonic_ns();
        if asked_ns - began_ns >= before_ns {
            late.push(now_ns - asked_ns);
        }
        while next_ns <= now_ns {
            next_ns += period_ns;
        }
    }
    late.sort_unstable();
    let of = |percent: usize| late.get(late.len() * percent / 100).or(late.last()).map_or(0, |ns| ns / 1000);
    println!("{name} answers {} median {} p99 {} worst {} us", late.len(), of(50), of(99), of(100));
    Ok(())
}

fn flood(path: &str, work_ns: u64, for_ns: u64) -> Result<()> {
    let mut server = connect(path)?;
    let (began_ns, mut asked, mut answered) = (monotonic_ns(), 0, 0);
    while monotonic_ns() - began_ns < for_ns {
        while asked - answered < AHEAD {
            server.write_all(&work_ns.to_le_bytes())?;
            asked += 1;
        }
        let mut answers = [0; AHEAD];
        match server.read(&mut answers) {
            Ok(0) => bail!("the server has gone"),
            Ok(count) => answered += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    println!("flood answered {answered}");
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let ns = |text: &str, unit: f64| Ok::<u64, anyhow::Error>((text.parse::<f64>()? * unit) as u64);
    match words[..] {
        ["serve", path] => serve(path),
        ["ask", name, path, work, period, seconds, ref before @ ..] => {
            let before = before.first().copied().unwrap_or("3");
            ask(name, path, ns(work, 1e3)?, ns(period, 1e3)?, ns(seconds, 1e9)?, ns(before, 1e9)?)
        }
        ["flood", path, work, seconds] => flood(path, ns(work, 1e3)?, ns(seconds, 1e9)?),
        _ => bail!("wants serve, ask or flood"),
    }
}
