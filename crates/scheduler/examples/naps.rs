//! Processes called `napper` that sleep, work and sleep again, for another to give them a place before all others, beside
//! endless loops called `below`.
//!
//! `naps NAPPERS LOOPS SECONDS`: each napper sleeps 5 ms and works 1 ms, from a second after its start on.

mod common;

use std::time::Duration;

use anyhow::{Context, Result};

use spry_scheduler::guardian::watch::now_ns;

/// In which whoever gives places sees them.
const BEFORE: Duration = Duration::from_secs(1);
const SLEEP: Duration = Duration::from_millis(5);
const WORK_NS: u64 = 1_000_000;

fn nap(until_ns: u64) {
    std::thread::sleep(BEFORE);
    while now_ns() < until_ns {
        std::thread::sleep(SLEEP);
        let woken = now_ns();
        while now_ns() - woken < WORK_NS {}
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (nappers, loops, seconds) = (next(4)?, next(8)?, next(5)?);
    let until_ns = now_ns() + (BEFORE + Duration::from_secs(seconds)).as_nanos() as u64;
    let mut all = Vec::new();
    for _ in 0..loops {
        all.push(common::start(|| {
            common::set_name(c"below");
            while now_ns() < until_ns {}
        })?);
    }
    for _ in 0..nappers {
        all.push(common::start(|| {
            common::set_name(c"napper");
            nap(until_ns);
        })?);
    }
    all.into_iter().for_each(common::reap);
    Ok(())
}
