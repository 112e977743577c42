//! The soft modem: a periodic job that must be done by its period's end (Goel et al. 2002, section 3: processing at
//! least every 16 ms, or audio suffers).

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::runner::sys;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct Modem;

impl Kind for Modem {
    fn name(&self) -> &'static str {
        "modem"
    }

    fn about(&self) -> &'static str {
        "a periodic job with its deadline at the period's end; keys: period, job_work"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let period_ns = keys.duration_ns("period")?.unwrap_or(16_000_000);
        let work_ns = keys.duration_ns("job_work")?.unwrap_or(period_ns * 15 / 100);
        if period_ns < 100_000 {
            return Err(keys.mistake("period", "\"period\" must be 100us or more"));
        }
        if work_ns > period_ns {
            return Err(keys.mistake("job_work", "\"job_work\" must be at most the period"));
        }
        Ok(Box::new(Jobs { period_ns, work_ns }))
    }
}

#[derive(Debug)]
struct Jobs {
    period_ns: u64,
    work_ns: u64,
}

impl Role for Jobs {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let room = (stage.length_ns() / self.period_ns + 16).min(1 << 22) as usize;
        let (mut late, mut responses) = (Samples::with_capacity(room), Samples::with_capacity(room));
        let start = stage.start_line()?;
        let mut met = 0;
        let mut release_ns = start.t0_ns;
        while !stage.over() {
            // A job that comes late is done late: the line does not wait, and so does not the next job.
            while stage.sleep_until(release_ns) == sys::Woke::Interrupted && !stage.over() {}
            let begun_ns = stage.now_ns();
            stage.work(self.work_ns);
            let (done_ns, deadline_ns) = (stage.now_ns(), release_ns + self.period_ns);
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
        // Jobs whose release and deadline are both within what is measured, done or not.
        let first = start.measure_from_ns.saturating_sub(start.t0_ns).div_ceil(self.period_ns);
        let last = (start.measure_to_ns.saturating_sub(start.t0_ns) - 1) / self.period_ns;
        metrics.count("jobs_due", last.saturating_sub(first));
        metrics.quantiles("job_start_ns", &late, &["p50", "p99", "max"]);
        metrics.quantiles("job_done_ns", &responses, &["p50", "p99", "max"]);
        Ok(metrics)
    }
}
