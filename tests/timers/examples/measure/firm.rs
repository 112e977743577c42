//! The same timers as firm timers.

use std::time::Duration;

use anyhow::Result;
use spry_timer::{Loop, Terms, Timers, measure_costs, now_ns};

use crate::load::{self, Outcome, PERIOD_NS, Piece, TIMERS};

pub fn arm(timers: &mut Timers<u32>, start_ns: u64, overshoot_us: u64) -> Result<()> {
    for timer in 0..TIMERS {
        let first_ns = load::first_deadline_ns(start_ns, timer);
        let terms = Terms::firm(first_ns, overshoot_us * 1000).every(PERIOD_NS);
        timers.arm(start_ns, terms, timer as u32)?;
    }
    Ok(())
}

/// A thread that only sleeps for its timers: each fires at its backstop, or with an earlier timer.
pub fn sleeps(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    let mut late_ns = load::lateness(time);
    let (mut event_loop, mut ready) = (Loop::new()?, Vec::new());
    let start_ns = now_ns();
    let end_ns = start_ns + time.as_nanos() as u64;
    arm(event_loop.timers(), start_ns, overshoot_us)?;
    let cpu_before_ns = load::cpu_ns();
    let mut now = start_ns;
    while now < end_ns {
        let trigger = event_loop.wait(&mut ready)?;
        event_loop.fire(trigger, |_, fired| {
            late_ns.push(fired.late_ns as u32);
            now = fired.deadline_ns + fired.late_ns;
        });
    }
    let cpu_percent = (load::cpu_ns() - cpu_before_ns) as f64 / (now - start_ns) as f64 * 100.0;
    Ok(Outcome { cpu_percent, late_ns, expected: load::expected(start_ns, now) })
}

/// A thread with work that checks after each piece. The overshoot is the period, the greatest allowed.
pub fn works(piece_us: u64, time: Duration) -> Result<Outcome> {
    let costs = measure_costs()?;
    let mut failed = None;
    let outcome = load::beside_work(time, Piece::of(piece_us * 1000), |piece, slice, late_ns| {
        let mut event_loop = Loop::new().expect("a descriptor");
        event_loop.timers().set_costs(costs);
        let start_ns = now_ns();
        failed = arm(event_loop.timers(), start_ns, PERIOD_NS / 1000).err().or(failed.take());
        let end_ns = start_ns + slice.as_nanos() as u64;
        let mut now = start_ns;
        let mut pieces = 0;
        while now < end_ns {
            piece.work();
            pieces += 1;
            event_loop.check(|_, fired| {
                late_ns.push(fired.late_ns as u32);
                now = fired.deadline_ns + fired.late_ns;
            });
        }
        (pieces, load::expected(start_ns, now))
    });
    failed.map_or(Ok(outcome), Err)
}
