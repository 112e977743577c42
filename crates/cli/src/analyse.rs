//! Reads a trace and runs analyses over it, on several threads if the machine has several CPUs.
//!
//! One thread follows the events, as the time line must see them in order. Threads beside it count the
//! intervals that it finds, and one more reads ahead. The findings do not depend on the number of threads.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle, available_parallelism, scope};

use anyhow::Result;
use spry_analysis::{CounterSet, Engine, Findings, FullBatch, Progress, TraceTotals};
use spry_trace::Stamped;

use crate::source::{self, FileReader};

/// How many full batches may wait for each thread that counts.
const FULL_MAX: usize = 1;
/// How many events the reading thread hands over at once, and how many such lists may wait.
const AHEAD_EVENTS: usize = 1024;
const AHEAD_MAX: usize = 4;

/// How the work is divided among the threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Plan {
    /// How many threads count.
    counting: usize,
    reading: Reading,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// The thread that follows the events reads them, too.
    Here,
    /// Another thread reads the events ahead.
    Ahead,
}

impl Plan {
    fn new(threads: usize, extent: Extent) -> Plan {
        let others = threads.saturating_sub(1);
        // A thread that reads ahead goes beyond the window's end, by a distance that differs from run to run.
        let reading = match extent {
            Extent::Whole if others > 1 => Reading::Ahead,
            Extent::Whole | Extent::Part => Reading::Here,
        };
        let counting = others - usize::from(reading == Reading::Ahead);
        Plan { counting: counting.min(FullBatch::PARTS_MAX), reading }
    }
}

/// How many threads are of use on this machine. Some wait for others now and then, so two CPUs are busier
/// with more threads than two.
pub fn useful_threads() -> usize {
    match available_parallelism() {
        Ok(cpus) if cpus.get() > 1 => 2 + FullBatch::PARTS_MAX,
        Ok(_) | Err(_) => 1,
    }
}

/// How much of a trace is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The whole trace, to its end.
    Whole,
    /// Reading may break off before the end.
    Part,
}

/// Runs an engine over a trace of this many bytes, on at most this many threads.
pub fn analyse(
    mut reader: FileReader,
    mut engine: Engine,
    bytes: u64,
    extent: Extent,
    threads: usize,
) -> Result<Findings> {
    let plan = Plan::new(threads, extent);
    let end_ns = scope(|scope| -> Result<u64> {
        let counters = (plan.counting > 0).then(|| Counters::start(scope, &mut engine, plan.counting));
        let mut push = |stamped: &Stamped| {
            let progress = engine.push(stamped);
            if let Some(counters) = &counters {
                counters.hand_out(&mut engine);
            }
            match progress {
                Progress::More => ControlFlow::Continue(()),
                Progress::Enough => ControlFlow::Break(()),
            }
        };
        let end_ns = match plan.reading {
            Reading::Here => {
                source::read(&mut reader, bytes, |stamped| Ok(push(stamped)))?;
                reader.totals().end_ns
            }
            Reading::Ahead => read_ahead(scope, reader, bytes, &mut push)?,
        };
        if let Some(counters) = counters {
            counters.finish(&mut engine);
        }
        Ok(end_ns)
    })?;
    Ok(engine.finish(TraceTotals { bytes, end_ns: Some(end_ns), ..TraceTotals::default() }))
}

/// Gives each event that another thread reads to `push`. Returns the end time of the recording, ns.
fn read_ahead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut reader: FileReader,
    bytes: u64,
    push: &mut impl FnMut(&Stamped) -> ControlFlow<()>,
) -> Result<u64> {
    let (to, from) = sync_channel::<Vec<Stamped>>(AHEAD_MAX);
    let (give_back, given_back) = channel::<Vec<Stamped>>();
    let reading = scope.spawn(move || -> Result<u64> {
        let list = || Vec::with_capacity(AHEAD_EVENTS);
        let mut events = list();
        source::read(&mut reader, bytes, |stamped| {
            events.push(stamped.clone());
            if events.len() < AHEAD_EVENTS {
                return Ok(ControlFlow::Continue(()));
            }
            let empty = given_back.try_recv().unwrap_or_else(|_| list());
            let is_taken = to.send(std::mem::replace(&mut events, empty)).is_ok();
            Ok(if is_taken { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        _ = to.send(events);
        Ok(reader.totals().end_ns)
    });
    for mut events in &from {
        if events.iter().any(|stamped| push(stamped).is_break()) {
            break;
        }
        events.clear();
        _ = give_back.send(events);
    }
    drop(from);
    joined(reading)
}

/// Threads that count batches.
struct Counters<'scope> {
    to: Vec<SyncSender<FullBatch>>,
    empty: Receiver<FullBatch>,
    threads: Vec<ScopedJoinHandle<'scope, CounterSet>>,
}

impl<'scope> Counters<'scope> {
    fn start(scope: &'scope Scope<'scope, '_>, engine: &mut Engine, threads: usize) -> Counters<'scope> {
        let (give_back, empty) = channel();
        let parts = engine.detach(threads);
        let start = |part| {
            let (to, from) = sync_channel(FULL_MAX);
            let give_back = give_back.clone();
            (to, scope.spawn(move || count(part, &from, &give_back)))
        };
        let (to, threads) = parts.into_iter().map(start).unzip();
        Counters { to, empty, threads }
    }

    /// Hands out the engine's full batches.
    #[inline]
    fn hand_out(&self, engine: &mut Engine) {
        while let Some(full) = engine.full() {
            // A thread that has ended has panicked, and the panic goes on in `finish`.
            _ = self.to[full.part(self.to.len())].send(full);
            self.empty.try_iter().for_each(|empty| engine.recycle(empty));
        }
    }

    /// Waits until all batches are counted.
    fn finish(self, engine: &mut Engine) {
        drop(self.to);
        engine.attach(self.threads.into_iter().map(joined).collect());
    }
}

fn count(mut part: CounterSet, from: &Receiver<FullBatch>, give_back: &Sender<FullBatch>) -> CounterSet {
    for mut full in from {
        part.count(&mut full);
        _ = give_back.send(full);
    }
    part
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_plan_has_more_threads_than_there_are() {
        for threads in 1..8 {
            for extent in [Extent::Whole, Extent::Part] {
                let Plan { counting, reading } = Plan::new(threads, extent);
                assert!(1 + counting + usize::from(reading == Reading::Ahead) <= threads);
                assert!(threads == 1 || counting > 0);
            }
        }
    }
}
