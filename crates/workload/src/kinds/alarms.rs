//! The alarm tasks BLK, N % and CONT: how late alarm signals reach a process that blocks, computes some of the time or
//! all of it (Etsion, Tsafrir, Feitelson 2003, section 7).

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::alarm::AlarmClock;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct Alarms;

impl Kind for Alarms {
    fn name(&self) -> &'static str {
        "alarms"
    }

    fn about(&self) -> &'static str {
        "alarm signals after 1 to 1000 ms by chance; keys: load (BLK, N%, CONT), alarms, min, max"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let load = keys.text("load")?.unwrap_or_else(|| "BLK".into());
        let load = match load.as_str() {
            "BLK" => Load::Share(0.0),
            "CONT" => Load::Always,
            percent => match percent.trim_end_matches('%').trim().parse::<f64>() {
                Ok(share) if percent.ends_with('%') && (0.0..=100.0).contains(&share) => {
                    Load::Share(share / 100.0)
                }
                _ => {
                    let text =
                        format!("unknown load \"{percent}\"; a load is BLK, CONT, or a share such as 2%");
                    return Err(keys.mistake("load", text));
                }
            },
        };
        let alarms = keys.whole("alarms")?.unwrap_or(500);
        let min_ns = keys.duration_ns("min")?.unwrap_or(1_000_000);
        let max_ns = keys.duration_ns("max")?.unwrap_or(1_000_000_000);
        if alarms == 0 || alarms > 1_000_000 {
            return Err(keys.mistake("alarms", format!("\"alarms\" must be from 1 to 1000000, not {alarms}")));
        }
        if min_ns == 0 || min_ns > max_ns {
            return Err(keys.mistake("min", "\"min\" must be more than 0 and at most \"max\""));
        }
        Ok(Box::new(Task { load, alarms, min_ns, max_ns }))
    }
}

/// What a task does between alarms.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Computes for this share of the time until the next alarm, then blocks.
    Share(f64),
    /// Computes all the time.
    Always,
}

#[derive(Debug)]
struct Task {
    load: Load,
    alarms: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Role for Task {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let mut rng = stage.rng();
        let between = self.max_ns - self.min_ns + 1;
        let clock = AlarmClock::new((0..self.alarms).map(|_| self.min_ns + rng.below(between)).collect())?;
        let start = stage.start_line()?;
        clock.start();
        let mut begun = 0;
        while !stage.over() {
            match self.load {
                Load::Always => stage.work(1_000_000),
                Load::Share(share) => {
                    if let Some(interval_ns) = clock.interval_after_ns(begun) {
                        stage.work((interval_ns as f64 * share) as u64);
                    }
                    while clock.come() <= begun && !stage.over() {
                        clock.wait_beyond(begun);
                    }
                    begun += 1;
                }
            }
        }
        let mut late = Samples::with_capacity(self.alarms as usize);
        for (due_ns, late_ns) in clock.stop() {
            if (start.measure_from_ns..start.measure_to_ns).contains(&due_ns) {
                late.push(late_ns);
            }
        }
        let mut metrics = Metrics::new();
        metrics.count("alarms", late.len() as u64);
        metrics.quantiles("latency_ns", &late, &["p90", "p95", "p99", "max"]);
        Ok(metrics)
    }
}
