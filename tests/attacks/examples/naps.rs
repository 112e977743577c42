//! Processes called `napper` that sleep, work and sleep again, beside endless loops called `below`. Another
//! program gives the nappers a place before all other tasks.
//!
//! `naps NAPPERS LOOPS SECONDS`: from a second after its start on, each napper sleeps 5 ms and
//! works 1 ms in turn.

use std::time::Duration;

use anyhow::{Context, Result};
use spry_sys::clock::monotonic_ns;

/// A program that gives places has this time to find the threads.
const BEFORE: Duration = Duration::from_secs(1);
const SLEEP: Duration = Duration::from_millis(5);
const WORK_NS: u64 = 1_000_000;

fn nap(until_ns: u64) {
    std::thread::sleep(BEFORE);
    while monotonic_ns() < until_ns {
        std::thread::sleep(SLEEP);
        let woken = monotonic_ns();
        while monotonic_ns() - woken < WORK_NS {
            spry_attacks::work();
        }
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (nappers, loops, seconds) = (next(4)?, next(8)?, next(5)?);
    let until_ns = monotonic_ns() + (BEFORE + Duration::from_secs(seconds)).as_nanos() as u64;
    let mut all = Vec::new();
    for _ in 0..loops {
        all.push(spry_attacks::start(|| {
            spry_sys::process::set_name(c"below");
            while monotonic_ns() < until_ns {
                spry_attacks::work();
            }
        })?);
    }
    for _ in 0..nappers {
        all.push(spry_attacks::start(|| {
            spry_sys::process::set_name(c"napper");
            nap(until_ns);
        })?);
    }
    all.into_iter().for_each(spry_attacks::reap);
    Ok(())
}
