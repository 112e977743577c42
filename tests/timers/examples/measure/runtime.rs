//! The same timers as intervals of tokio's tasks, a task each, on a runtime of one thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use spry_timer::tokio::Time;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};

use crate::load::{self, Outcome, PERIOD_NS, PIECE_NS, Piece, TIMERS};

const PERIOD: Duration = Duration::from_nanos(PERIOD_NS);

/// The list in which all tasks note their lateness, in ns.
type Late = Rc<RefCell<Vec<u32>>>;

/// The first deadline of a timer.
fn first(start: Instant, timer: u64) -> Instant {
    start + Duration::from_nanos(load::first_deadline_ns(0, timer))
}

fn note(late: &Late, late_by: Duration) {
    late.borrow_mut().push(late_by.as_nanos() as u32);
}

/// The source of ticks for tasks.
trait Ticks: Clone + 'static {
    /// Makes the source of ticks, and a runtime that it serves.
    fn with_runtime(overshoot_us: u64) -> Result<(Self, Runtime)>;
    /// A trigger point of the program.
    fn check(&self);
    /// Notes the lateness of each tick, up to the last tick that is due before the end.
    fn run(self, first: Instant, end: Instant, late: Late) -> impl Future<Output = ()>;
}

/// tokio's interval. Missed ticks follow at once, which is tokio's default.
#[derive(Clone)]
struct Stock;

impl Ticks for Stock {
    fn with_runtime(_overshoot_us: u64) -> Result<(Stock, Runtime)> {
        Ok((Stock, Builder::new_current_thread().enable_all().build()?))
    }

    fn check(&self) {}

    async fn run(self, first: Instant, end: Instant, late: Late) {
        let mut ticks = tokio::time::interval_at(first.into(), PERIOD);
        let mut deadline = first;
        while deadline <= end {
            deadline = ticks.tick().await.into_std();
            note(&late, deadline.elapsed());
            deadline += PERIOD;
        }
    }
}

#[derive(Clone)]
struct Firm(Time, Duration);

impl Ticks for Firm {
    fn with_runtime(overshoot_us: u64) -> Result<(Firm, Runtime)> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let time = runtime.block_on(async { Time::start() })?;
        Ok((Firm(time, Duration::from_micros(overshoot_us)), runtime))
    }

    fn check(&self) {
        self.0.check();
    }

    async fn run(self, first: Instant, end: Instant, late: Late) {
        let mut ticks = self.0.interval_at(first, PERIOD, self.1).expect("it can be kept");
        let mut deadline = first;
        while deadline <= end {
            note(&late, ticks.tick().await);
            deadline += PERIOD;
        }
    }
}

fn spawn(ticks: &impl Ticks, start: Instant, end: Instant, late: &Late) -> Vec<JoinHandle<()>> {
    let run = |timer| spawn_local(ticks.clone().run(first(start, timer), end, late.clone()));
    (0..TIMERS).map(run).collect()
}

fn expected(time: Duration) -> u64 {
    load::expected(0, time.as_nanos() as u64)
}

/// A runtime with tasks that only wait for their ticks.
fn sleeps<T: Ticks>(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    let late = Rc::new(RefCell::new(load::lateness(time)));
    let (ticks, runtime) = T::with_runtime(overshoot_us)?;
    let cpu_percent = LocalSet::new().block_on(&runtime, async {
        let (start, cpu_before_ns) = (Instant::now(), load::cpu_ns());
        for task in spawn(&ticks, start, start + time, &late) {
            task.await?;
        }
        let cpu_ns = load::cpu_ns() - cpu_before_ns;
        anyhow::Ok(cpu_ns as f64 / start.elapsed().as_nanos() as f64 * 100.0)
    })?;
    Ok(Outcome { cpu_percent, late_ns: late.take(), expected: expected(time) })
}

/// A runtime that always has work, in tasks of 20 us.
fn works<T: Ticks>(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    let (ticks, runtime) = T::with_runtime(overshoot_us)?;
    let outcome = load::beside_work(time, Piece::of(PIECE_NS), |piece, slice, late_ns| {
        let late = Rc::new(RefCell::new(std::mem::take(late_ns)));
        let pieces = LocalSet::new().block_on(&runtime, async {
            let start = Instant::now();
            let tasks = spawn(&ticks, start, start + slice, &late);
            let mut pieces = 0;
            while tasks.iter().any(|task| !task.is_finished()) {
                piece.work();
                pieces += 1;
                ticks.check();
                yield_now().await;
            }
            pieces
        });
        *late_ns = late.take();
        (pieces, expected(slice))
    });
    Ok(outcome)
}

pub fn tokio_sleeps(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    sleeps::<Stock>(overshoot_us, time)
}

pub fn firm_sleeps(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    sleeps::<Firm>(overshoot_us, time)
}

pub fn tokio_works(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    works::<Stock>(overshoot_us, time)
}

pub fn firm_works(overshoot_us: u64, time: Duration) -> Result<Outcome> {
    works::<Firm>(overshoot_us, time)
}
