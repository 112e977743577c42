//! The alarm tasks BLK, N % and CONT: they measure how late alarm signals reach a process. The process
//! blocks, computes some of the time, or computes all the time (Etsion, Tsafrir, Feitelson 2003, section 7).

use spry_scenario::kinds::{Alarms, Load};
use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::stage::Stage;

pub(super) fn play(alarms: &Alarms, stage: &Stage) -> Result<Metrics, RunError> {
    let mut rng = stage.rng();
    let between = alarms.max_ns - alarms.min_ns + 1;
    let clock =
        stage.alarm_clock((0..alarms.alarms).map(|_| alarms.min_ns + rng.below(between)).collect())?;
    let start = stage.start_line()?;
    clock.start();
    let mut begun = 0;
    while !stage.over() {
        match alarms.load {
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
    let mut late = Samples::with_capacity(alarms.alarms as usize);
    for (due_ns, late_ns) in clock.stop() {
        if start.counts(due_ns) {
            late.push(late_ns);
        }
    }
    let mut metrics = Metrics::new();
    metrics.count("alarms", late.len() as u64);
    metrics.quantiles("latency_ns", &late, &["p90", "p95", "p99", "max"]);
    Ok(metrics)
}
