//! The soft modem: each period has a job that must be done by the end of the period (Goel et al. 2002,
//! section 2: a modem must process at least every 16 ms, or audio suffers).

use spry_scenario::kinds::Modem;
use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::stage::Stage;

pub(super) fn play(modem: &Modem, stage: &Stage) -> Result<Metrics, RunError> {
    let room = (stage.length_ns() / modem.period_ns + 16).min(1 << 22) as usize;
    let (mut late, mut responses) = (Samples::with_capacity(room), Samples::with_capacity(room));
    let start = stage.start_line()?;
    let mut met = 0;
    let mut release_ns = start.t0_ns;
    while !stage.over() {
        // The jobs are released at fixed times. A job that starts late ends late, and does not move the
        // next job's release.
        stage.sleep_through(release_ns);
        let begun_ns = stage.now_ns();
        stage.work(modem.work_ns);
        let (done_ns, deadline_ns) = (stage.now_ns(), release_ns + modem.period_ns);
        if stage.over() {
            break;
        }
        if release_ns >= start.measure_from_ns && deadline_ns < start.measure_to_ns {
            met += u64::from(done_ns <= deadline_ns);
            late.push(begun_ns - release_ns);
            responses.push(done_ns - release_ns);
        }
        release_ns = deadline_ns;
    }
    let mut metrics = Metrics::new();
    metrics.count("jobs_met", met);
    // The number of jobs that have their release and their deadline within the measured time, whether
    // they were done or not.
    let first = start.measure_from_ns.saturating_sub(start.t0_ns).div_ceil(modem.period_ns);
    let last = (start.measure_to_ns.saturating_sub(start.t0_ns) - 1) / modem.period_ns;
    metrics.count("jobs_due", last.saturating_sub(first));
    metrics.quantiles("job_start_ns", &late, &["p50", "p99", "max"]);
    metrics.quantiles("job_done_ns", &responses, &["p50", "p99", "max"]);
    Ok(metrics)
}
