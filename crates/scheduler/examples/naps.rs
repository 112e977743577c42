//! Processes called `napper` that sleep, work and sleep again, for another to give them a place before all others.
//!
//! `naps COUNT SECONDS [PRIORITY]`: each sleeps 5 ms and works 1 ms; with a priority above 0 it is real-time (FIFO).

mod common;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

const SLEEP: Duration = Duration::from_millis(5);
const WORK: Duration = Duration::from_millis(1);

fn nap(until: Instant) {
    while Instant::now() < until {
        std::thread::sleep(SLEEP);
        let woken = Instant::now();
        while woken.elapsed() < WORK {}
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (count, seconds, priority) = (next(4)?, next(5)?, next(0)?);
    if priority > 0 {
        common::become_real_time(libc::SCHED_FIFO, priority as i32)?;
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    let napper = || {
        common::start(|| {
            common::set_name(c"napper");
            nap(until);
        })
    };
    let nappers = (0..count).map(|_| napper()).collect::<Result<Vec<_>>>()?;
    nappers.into_iter().for_each(common::reap);
    Ok(())
}
