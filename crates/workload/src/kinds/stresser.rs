//! Endless loops that take every cycle: the stresser (thesis, section 4.3), and the worker, which counts its work.

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// Work between two looks at the clock, ns.
const PIECE_NS: u64 = 1_000_000;

/// The same of a worker, ns: what it got done is told to within this.
const COUNTED_NS: u64 = 100_000;

/// The kind that tells how long it starved.
pub(super) struct Stresser;

/// The kind that tells how much it got done.
pub(super) struct Worker;

impl Kind for Stresser {
    fn name(&self) -> &'static str {
        "stresser"
    }

    fn about(&self) -> &'static str {
        "an endless loop that takes every cycle; it tells the longest time in which it did not get a millisecond of work done"
    }

    fn parse(&self, _keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        Ok(Box::new(Endless))
    }
}

#[derive(Debug)]
struct Endless;

impl Role for Endless {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let start = stage.start_line()?;
        let (mut last_ns, mut starved_ns) = (start.measure_from_ns, 0);
        while !stage.over() {
            stage.work(PIECE_NS);
            let now_ns = stage.now_ns().min(start.measure_to_ns);
            if now_ns > last_ns {
                starved_ns = starved_ns.max(now_ns - last_ns);
                last_ns = now_ns;
            }
        }
        let mut metrics = Metrics::new();
        metrics.greatest("starved_ns_max", starved_ns);
        Ok(metrics)
    }
}

impl Kind for Worker {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn about(&self) -> &'static str {
        "an endless loop that takes every cycle; it tells how much work it got done, as the time that this takes alone"
    }

    fn parse(&self, _keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        Ok(Box::new(Counting))
    }
}

#[derive(Debug)]
struct Counting;

impl Role for Counting {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let start = stage.start_line()?;
        let mut pieces = 0;
        while !stage.over() {
            stage.work(COUNTED_NS);
            pieces += u64::from((start.measure_from_ns..start.measure_to_ns).contains(&stage.now_ns()));
        }
        let mut done = Samples::with_capacity(1);
        done.push(pieces * COUNTED_NS);
        let mut metrics = Metrics::new();
        metrics.quantiles("work_ns", &done, &["sum", "min", "max"]);
        Ok(metrics)
    }
}
