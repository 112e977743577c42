//! The cost of the tick that a user has set: how often its timers fire, and the time in their callbacks.

use serde::{Deserialize, Serialize};

/// The cost of the tick over the latest second. Only the callbacks are measured: the time in which a CPU
/// enters and leaves the interrupt around a callback is not counted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ticks {
    /// The time over which the cost was measured, s.
    pub over_s: f64,
    /// The sum over all CPUs.
    pub all: TickCost,
    /// The CPUs on which a timer fired, by number.
    pub cpus: Vec<TicksOfCpu>,
}

/// The cost of the tick on one CPU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TicksOfCpu {
    /// The CPU's number.
    pub cpu: u32,
    /// The CPU's part of the cost.
    #[serde(flatten)]
    pub cost: TickCost,
}

/// The number of callbacks, and their time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TickCost {
    /// Callbacks a second.
    pub per_s: f64,
    /// The mean time in a callback, ns; null if there was none.
    pub callback_ns: Option<f64>,
    /// The time in callbacks divided by time, in CPUs.
    pub cpu_share: f64,
}

impl TickCost {
    /// The cost of `callbacks` callbacks that took `ran_ns` together, ns, over a time of `over_ns`, ns.
    #[must_use]
    pub fn new(callbacks: u64, ran_ns: u64, over_ns: u64) -> TickCost {
        let over_ns = over_ns.max(1) as f64;
        TickCost {
            per_s: callbacks as f64 / (over_ns / 1e9),
            callback_ns: (callbacks > 0).then(|| ran_ns as f64 / callbacks as f64),
            cpu_share: ran_ns as f64 / over_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_callbacks_a_second_their_mean_and_a_share() {
        let cost = TickCost::new(2_500, 7_000_000, 500_000_000);
        assert_eq!(cost, TickCost { per_s: 5_000.0, callback_ns: Some(2_800.0), cpu_share: 0.014 });
        let none = TickCost { per_s: 0.0, callback_ns: None, cpu_share: 0.0 };
        assert_eq!((TickCost::new(0, 0, 1), TickCost::new(0, 0, 0)), (none, none));
    }

    #[test]
    fn the_cost_of_a_cpu_is_one_object() {
        let one = TicksOfCpu { cpu: 3, cost: TickCost::new(1, 2, 1_000_000_000) };
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(text, r#"{"cpu":3,"per_s":1.0,"callback_ns":2.0,"cpu_share":2e-9}"#);
        assert_eq!(serde_json::from_str::<TicksOfCpu>(&text).unwrap(), one);
    }
}
