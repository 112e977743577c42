//! The same firm timers in a program that waits in io_uring.

use std::time::Duration;

use anyhow::Result;
use io_uring::IoUring;
use spry_timer::{RingBackstop, Timers, now_ns};

use crate::firm;
use crate::load::{self, Outcome};

/// A thread that only sleeps for its timers: each fires at its backstop, or with an earlier timer.
pub fn sleeps(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    let mut late_ns = load::lateness(time);
    let (backstop, mut ring, mut timers) = (RingBackstop::new()?, IoUring::new(8)?, Timers::new());
    let start_ns = now_ns();
    let end_ns = start_ns + time.as_nanos() as u64;
    firm::arm(&mut timers, start_ns, overshoot_us)?;
    let cpu_before_ns = load::cpu_ns();
    let mut now = start_ns;
    while now < end_ns {
        let trigger = backstop.wait(&mut ring, timers.backstop_ns())?;
        now = now_ns();
        while let Some(fired) = timers.take(now, trigger) {
            late_ns.push(fired.late_ns as u32);
        }
    }
    let cpu_percent = (load::cpu_ns() - cpu_before_ns) as f64 / (now - start_ns) as f64 * 100.0;
    Ok(Outcome { cpu_percent, late_ns, expected: load::expected(start_ns, now) })
}
