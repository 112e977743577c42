//! Endless loops that take all the CPU time that they get: the stresser (thesis, section 4.3), and the
//! worker, which counts its work.

use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::stage::Stage;

/// A stresser does this much work between two readings of the clock, ns of CPU time.
const PIECE_NS: u64 = 1_000_000;

/// A worker does this much work between two readings of the clock, ns of CPU time. So the work that it
/// reports is exact to within this amount.
const COUNTED_NS: u64 = 100_000;

/// Plays a stresser, and reports how long it did not get the CPU.
pub(super) fn stress(stage: &Stage) -> Result<Metrics, RunError> {
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

/// Plays a worker, and reports how much work it did.
pub(super) fn work(stage: &Stage) -> Result<Metrics, RunError> {
    let start = stage.start_line()?;
    let mut pieces = 0;
    while !stage.over() {
        stage.work(COUNTED_NS);
        pieces += u64::from(start.counts(stage.now_ns()));
    }
    let mut done = Samples::with_capacity(1);
    done.push(pieces * COUNTED_NS);
    let mut metrics = Metrics::new();
    metrics.quantiles("work_ns", &done, &["sum", "min", "max"]);
    Ok(metrics)
}
