//! What the tick costs: the difference of the scheduler's counts between two seconds.

use spry_control::{TickCost, Ticks, TicksOfCpu};

use super::acting::ActuatorManager;
use crate::actuator::TickCount;

/// A shorter time is not measured, ns: the next second ends it.
const OVER_NS_LEAST: u64 = 500_000_000;

/// The counts at the begin of a measurement.
#[derive(Debug)]
struct StartCounts {
    at_ns: u64,
    /// The number of changes of the actuator. Another actuator counts from 0.
    changes: u64,
    counts: Vec<TickCount>,
}

/// The cost of the tick over the latest second, and the measurement in progress.
#[derive(Debug, Default)]
pub struct TickMeter {
    begin: Option<StartCounts>,
    cost: Option<Ticks>,
}

impl TickMeter {
    /// The cost over the latest second; `None` without a tick, and in its first second.
    pub const fn cost(&self) -> Option<&Ticks> {
        self.cost.as_ref()
    }

    /// Begins anew: the tick has been set or removed.
    pub fn restart(&mut self, acting: &ActuatorManager, now_ns: u64) {
        *self = TickMeter::default();
        self.measure(acting, now_ns);
    }

    /// Measures the time since the last call.
    pub fn measure(&mut self, acting: &ActuatorManager, now_ns: u64) {
        let counts = acting.knobs().tuning.and_then(|_| acting.ticks());
        self.take(counts, acting.changes(), now_ns);
    }

    fn take(&mut self, counts: Option<Vec<TickCount>>, changes: u64, now_ns: u64) {
        let Some(counts) = counts else {
            *self = TickMeter::default();
            return;
        };
        if let Some(begin) = self.begin.as_ref().filter(|begin| begin.changes == changes) {
            let over_ns = now_ns.saturating_sub(begin.at_ns);
            if over_ns < OVER_NS_LEAST {
                return;
            }
            self.cost = Some(cost(&begin.counts, &counts, over_ns));
        } else {
            self.cost = None;
        }
        self.begin = Some(StartCounts { at_ns: now_ns, changes, counts });
    }
}

/// The cost between two readings of the counts.
fn cost(before: &[TickCount], after: &[TickCount], over_ns: u64) -> Ticks {
    let of_cpu = |before: &TickCount, after: &TickCount| TickCount {
        callbacks: after.callbacks.saturating_sub(before.callbacks),
        ran_ns: after.ran_ns.saturating_sub(before.ran_ns),
    };
    let cost = |count: TickCount| TickCost::new(count.callbacks, count.ran_ns, over_ns);
    let mut all = TickCount::default();
    let mut cpus = Vec::new();
    for (cpu, (before, after)) in (0..).zip(before.iter().zip(after)) {
        let count = of_cpu(before, after);
        all.callbacks += count.callbacks;
        all.ran_ns += count.ran_ns;
        if count.callbacks > 0 {
            cpus.push(TicksOfCpu { cpu, cost: cost(count) });
        }
    }
    Ticks { over_s: over_ns as f64 / 1e9, all: cost(all), cpus }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn counts(all: [(u64, u64); 3]) -> Option<Vec<TickCount>> {
        Some(all.map(|(callbacks, ran_ns)| TickCount { callbacks, ran_ns }).into())
    }

    #[test]
    fn the_cost_is_of_the_latest_second_by_cpu_and_together() {
        let mut meter = TickMeter::default();
        meter.take(counts([(10, 10_000), (0, 0), (7, 7)]), 0, SECOND);
        assert_eq!(meter.cost(), None, "nothing is known in the first second");
        meter.take(counts([(5_010, 14_010_000), (0, 0), (5_007, 6_000_007)]), 0, 2 * SECOND);
        let ticks = meter.cost().expect("a second is over");
        let numbers: Vec<u32> = ticks.cpus.iter().map(|one| one.cpu).collect();
        assert_eq!((numbers, ticks.over_s), (vec![0, 2], 1.0));
        assert_eq!(ticks.cpus[0].cost, TickCost::new(5_000, 14_000_000, SECOND));
        assert_eq!(ticks.all, TickCost::new(10_000, 20_000_000, SECOND));
        meter.take(counts([(5_010, 14_010_000), (0, 0), (5_007, 6_000_007)]), 0, 3 * SECOND);
        let ticks = meter.cost().expect("another second is over");
        assert_eq!((ticks.all, ticks.cpus.len()), (TickCost::new(0, 0, SECOND), 0), "no CPU ticked");
    }

    #[test]
    fn a_short_time_is_measured_with_the_second_after_it() {
        let mut meter = TickMeter::default();
        meter.take(counts([(0, 0); 3]), 0, SECOND);
        meter.take(counts([(5, 5); 3]), 0, SECOND + OVER_NS_LEAST - 1);
        assert_eq!(meter.cost(), None);
        meter.take(counts([(100, 100); 3]), 0, 2 * SECOND);
        assert_eq!(meter.cost().map(|ticks| ticks.all.per_s), Some(300.0));
    }

    #[test]
    fn another_scheduler_counts_from_its_own_begin() {
        let mut meter = TickMeter::default();
        meter.take(counts([(900, 900); 3]), 0, SECOND);
        meter.take(counts([(1_000, 1_000); 3]), 0, 2 * SECOND);
        meter.take(counts([(0, 0); 3]), 2, 3 * SECOND);
        assert_eq!(meter.cost(), None);
        meter.take(counts([(50, 50); 3]), 2, 4 * SECOND);
        assert_eq!(meter.cost().map(|ticks| ticks.all.per_s), Some(150.0));
        meter.take(None, 2, 5 * SECOND);
        assert!(meter.cost().is_none() && meter.begin.is_none(), "there is no tick any more");
    }
}
