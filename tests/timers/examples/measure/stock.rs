//! The stock way: a heap of deadlines, and `epoll_pwait2` with the time until the first deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use spry_timer::now_ns;

use crate::load::{self, Outcome, PERIOD_NS, PIECE_NS, Piece, TIMERS};

/// The deadlines and the descriptor on which the loop sleeps.
struct Stock {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    deadlines: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Stock {
    fn new(start_ns: u64) -> Result<Stock> {
        let first = |timer| Reverse((load::first_deadline_ns(start_ns, timer), timer));
        Ok(Stock {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(16),
            deadlines: (0..TIMERS).map(first).collect(),
        })
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<()> {
        self.events.clear();
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout_ns as i64 };
        epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout))?;
        Ok(())
    }

    /// Fires all timers with a deadline up to now.
    fn fire(&mut self, now_ns: u64, late_ns: &mut Vec<u32>) {
        while let Some(mut first) = self.deadlines.peek_mut().filter(|it| it.0.0 <= now_ns) {
            late_ns.push((now_ns - first.0.0) as u32);
            first.0.0 += PERIOD_NS;
        }
    }
}

/// A thread that only sleeps for its timers.
pub fn sleeps(slack_us: u64, time: Duration) -> Result<Outcome> {
    set_current_timer_slack(NonZeroU64::new(slack_us * 1000))?;
    let mut late_ns = load::lateness(time);
    let start_ns = now_ns();
    let end_ns = start_ns + time.as_nanos() as u64;
    let mut stock = Stock::new(start_ns)?;
    let cpu_before_ns = load::cpu_ns();
    let mut now = start_ns;
    while now < end_ns {
        let next_ns = stock.deadlines.peek().map_or(end_ns, |first| first.0.0);
        stock.wait(next_ns.saturating_sub(now_ns()))?;
        now = now_ns();
        stock.fire(now, &mut late_ns);
    }
    let cpu_percent = (load::cpu_ns() - cpu_before_ns) as f64 / (now - start_ns) as f64 * 100.0;
    set_current_timer_slack(None)?;
    Ok(Outcome { cpu_percent, late_ns, expected: load::expected(start_ns, now) })
}

/// The same sleeping thread on a CPU on which another thread always has work.
pub fn sleeps_beside_work(slack_us: u64, time: Duration) -> Result<Outcome> {
    let allowed = sched_getaffinity(None)?;
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu)).context("this thread may use no CPU")?);
    // The thread with work inherits this CPU.
    sched_setaffinity(None, &one)?;
    let is_over = AtomicBool::new(false);
    let piece = Piece::of(PIECE_NS);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                piece.work();
            }
        });
        let outcome = sleeps(slack_us, time);
        is_over.store(true, Ordering::Relaxed);
        outcome
    });
    sched_setaffinity(None, &allowed)?;
    outcome
}

/// A thread with work that checks its descriptors and the clock after each piece.
pub fn works(piece_us: u64, time: Duration) -> Result<Outcome> {
    let mut failed = None;
    let outcome = load::beside_work(time, Piece::of(piece_us * 1000), |piece, slice, late_ns| {
        let start_ns = now_ns();
        let end_ns = start_ns + slice.as_nanos() as u64;
        let mut now = start_ns;
        let mut pieces = 0;
        let served = Stock::new(start_ns).and_then(|mut stock| {
            while now < end_ns {
                piece.work();
                pieces += 1;
                stock.wait(0)?;
                now = now_ns();
                stock.fire(now, late_ns);
            }
            Ok(())
        });
        failed = served.err().or(failed.take());
        (pieces, load::expected(start_ns, now))
    });
    failed.map_or(Ok(outcome), Err)
}
