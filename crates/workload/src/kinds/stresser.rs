//! The stresser: an endless loop that takes every cycle (thesis, section 4.3).

use super::{Kind, Role};
use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// Work between two looks at the clock, ns.
const PIECE_NS: u64 = 1_000_000;

/// The kind.
pub(super) struct Stresser;

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
