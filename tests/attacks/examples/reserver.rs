//! Opens and closes reservations, for a test that none of them leaves data behind: `reserver SECONDS`.
//!
//! A hundred times a second a thread begins, and time is reserved for it. 50 ms later the thread ends. Every
//! other time, its reservation is released first; otherwise the thread ends with its reservation. Each ten
//! seconds, and at the end, a line has the daemon's memory, descriptors, and maps.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use spry_control::{Answer, Client, ControlError, Request, ReservationChoice};
use spry_reservations::{Covers, OnExhaustion, Terms};
use spry_sys::process;

const SOCKET: &str = "/run/spry/sched.sock";
/// The number of reservations opened in a second, and the most of them at once.
const A_SECOND: u32 = 100;
const AT_ONCE: usize = 5;

/// A thread that works a tenth of a millisecond at a time.
struct Owner {
    tid: u32,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

fn owner() -> Result<Owner> {
    let ends = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    let until = Arc::clone(&ends);
    let work = move || {
        _ = sender.send(process::tid());
        while !until.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(100) {}
            thread::sleep(Duration::from_millis(4));
        }
    };
    let thread = thread::Builder::new().stack_size(64 << 10).spawn(work).context("a thread")?;
    Ok(Owner { tid: receiver.recv().context("its number")?, ends, thread })
}

/// The terms of a round: 5 to 40 % of 1 to 8 ms, other terms each time, so that some do not fit.
fn terms(round: u32) -> Terms {
    let period_ns = 1_000_000 << (round % 4);
    let budget_ns = period_ns / 100 * u64::from(5 + round * 7 % 36);
    let on_exhaustion = if round % 3 == 0 { OnExhaustion::Demote } else { OnExhaustion::Wait };
    Terms { budget_ns, period_ns, on_exhaustion }
}

/// The daemon's resources: resident memory, KiB; descriptors; the memory of maps, KiB.
fn memory(daemon: u32) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).context("the daemon")?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let rss = rss.trim().trim_end_matches(" kB");
    let (mut count, mut maps) = (0, 0);
    for entry in fs::read_dir(format!("/proc/{daemon}/fdinfo"))?.flatten() {
        count += 1;
        let info = fs::read_to_string(entry.path()).unwrap_or_default();
        let memory = info.lines().find_map(|line| line.strip_prefix("memlock:"));
        maps += memory.and_then(|bytes| bytes.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(format!("rss {rss} descriptors {count} maps {}", maps / 1024))
}

fn main() -> Result<()> {
    let seconds: u32 = std::env::args().nth(1).context("how many seconds?")?.parse()?;
    let mut client = Client::connect(Path::new(SOCKET))?;
    let daemon = client.status()?.tgid;
    let mut owners: VecDeque<(Owner, bool)> = VecDeque::new();
    let (mut opened, mut refused, mut released, mut largest) = (0, 0, 0, 0.0_f64);
    let begin = Instant::now();
    for round in 0..seconds * A_SECOND {
        let due = Duration::from_secs(1) * round / A_SECOND;
        thread::sleep(due.saturating_sub(begin.elapsed()));
        if owners.len() >= AT_ONCE {
            let (Owner { tid, ends, thread }, has) = owners.pop_front().context("it is there")?;
            if has && round % 2 == 0 {
                client.ask(&Request::Release { which: ReservationChoice::Tid(tid) })?;
                released += 1;
            }
            ends.store(true, Ordering::Relaxed);
            // A reservation that the thread still has is left to the scheduler.
            drop(thread);
        }
        let owner = owner()?;
        let covers = Covers::Thread { tid: owner.tid };
        let has = match client.ask(&Request::Reserve { covers, terms: terms(round), cpu: None }) {
            Ok(Answer::Opened(_)) => true,
            Err(ControlError::Refused(_)) => false,
            other => anyhow::bail!("{other:?}"),
        };
        *(if has { &mut opened } else { &mut refused }) += 1;
        owners.push_back((owner, has));
        for share in client.reservations()?.shares().into_values() {
            largest = largest.max(share * 100.0);
        }
        if round % (10 * A_SECOND) == 5 * A_SECOND {
            println!("at {} {}", round / A_SECOND, memory(daemon)?);
        }
    }
    for (owner, _) in owners {
        owner.ends.store(true, Ordering::Relaxed);
        owner.thread.join().ok().context("a thread")?;
    }
    thread::sleep(Duration::from_secs(1));
    let left = client.reservations()?.reservations.len();
    println!("at {seconds} {}", memory(daemon)?);
    println!("opened {opened} refused {refused} released {released} largest {largest:.4} left {left}");
    Ok(())
}
