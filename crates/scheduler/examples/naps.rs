//! Processes called `napper` that sleep, work and sleep again, for another to give them a place before all others, beside
//! endless loops called `below`.
//!
//! `naps NAPPERS LOOPS SECONDS [PRIORITY]`: each napper sleeps 5 ms and works 1 ms, from a second after its start on; with
//! a priority above 0 it is real-time (FIFO). In the end all say when they did not get on, ns of the monotonic clock:
//! they had no CPU then, or their CPU stood still.

mod common;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use common::shared;
use spry_scheduler::guardian::watch::now_ns;

/// In which whoever gives places sees them.
const BEFORE: Duration = Duration::from_secs(1);
const SLEEP: Duration = Duration::from_millis(5);
const WORK_NS: u64 = 1_000_000;
/// One that looked at the clock longer ago than this did not get on, ns.
const GAP_NS: u64 = 200_000;

/// When one did not get on, from and to, ns.
#[repr(C)]
struct Gaps {
    tid: AtomicU64,
    count: AtomicUsize,
    times: [[AtomicU64; 2]; 8192],
}

/// One that looks at the clock all the time.
struct Watch {
    gaps: &'static Gaps,
    last_ns: u64,
}

impl Watch {
    fn new(gaps: &'static Gaps) -> Watch {
        gaps.tid.store(std::process::id().into(), Ordering::Relaxed);
        Watch { gaps, last_ns: now_ns() }
    }

    fn look(&mut self) -> u64 {
        let now = now_ns();
        if now - self.last_ns > GAP_NS {
            let count = self.gaps.count.fetch_add(1, Ordering::Relaxed);
            if let Some([from, to]) = self.gaps.times.get(count) {
                from.store(self.last_ns, Ordering::Relaxed);
                to.store(now, Ordering::Relaxed);
            }
        }
        self.last_ns = now;
        now
    }
}

fn nap(mut watch: Watch, until_ns: u64) {
    std::thread::sleep(BEFORE);
    while watch.look() < until_ns {
        std::thread::sleep(SLEEP);
        let woken = watch.look();
        while watch.look() - woken < WORK_NS {}
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (nappers, loops, seconds, priority) = (next(4)? as usize, next(8)? as usize, next(5)?, next(0)?);
    let gaps = shared::<Gaps>(nappers + loops)?;
    let until_ns = now_ns() + (BEFORE + Duration::from_secs(seconds)).as_nanos() as u64;
    let mut all = Vec::new();
    for gaps in &gaps[nappers..] {
        all.push(common::start(|| {
            common::set_name(c"below");
            let mut watch = Watch::new(gaps);
            while watch.look() < until_ns {}
        })?);
    }
    if priority > 0 {
        common::become_real_time(libc::SCHED_FIFO, priority as i32)?;
    }
    for gaps in &gaps[..nappers] {
        all.push(common::start(|| {
            common::set_name(c"napper");
            nap(Watch::new(gaps), until_ns);
        })?);
    }
    all.into_iter().for_each(common::reap);
    for gaps in gaps {
        let (tid, count) = (gaps.tid.load(Ordering::Relaxed), gaps.count.load(Ordering::Relaxed));
        let times = gaps.times.get(..count);
        ensure!(times.is_some(), "{tid}: no place for {count} gaps");
        for [from, to] in times.unwrap_or_default() {
            println!("gap {tid} {} {}", from.load(Ordering::Relaxed), to.load(Ordering::Relaxed));
        }
    }
    Ok(())
}
