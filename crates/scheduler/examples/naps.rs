//! Processes called `napper` that sleep, work and sleep again, for another to give them a place before all others.
//!
//! `naps COUNT SECONDS [PRIORITY]`: each sleeps 5 ms and works 1 ms; with a priority above 0 it is real-time (FIFO).

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

const SLEEP: Duration = Duration::from_millis(5);
const WORK: Duration = Duration::from_millis(1);

fn nap(until: Instant) {
    while Instant::now() < until {
        std::thread::sleep(SLEEP);
        let woken = Instant::now();
        while woken.elapsed() < WORK {}
    }
}

fn become_real_time(priority: i32) -> Result<()> {
    if priority > 0 {
        let param = libc::sched_param { sched_priority: priority };
        // SAFETY: the structure outlives the call.
        let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
        ensure!(done == 0, io::Error::last_os_error());
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (count, seconds, priority) = (next(4)?, next(5)?, next(0)?);
    let until = Instant::now() + Duration::from_secs(seconds);
    for _ in 0..count {
        // SAFETY: this process has one thread.
        let tgid = unsafe { libc::fork() };
        ensure!(tgid >= 0, io::Error::last_os_error());
        if tgid == 0 {
            // SAFETY: numbers and a string that ends in a zero.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::prctl(libc::PR_SET_NAME, c"napper".as_ptr());
            }
            become_real_time(priority as i32)?;
            nap(until);
            return Ok(());
        }
    }
    // SAFETY: waits for children, whose status is not asked for.
    while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
    Ok(())
}
