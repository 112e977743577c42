//! The parameters of the soft modem.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// Each period has a job that must be done by the end of the period (Goel et al. 2002, section 2: a modem
/// must process at least every 16 ms, or audio suffers).
#[derive(Clone, Debug, PartialEq)]
pub struct Modem {
    /// The period, ns, 100 us or more.
    pub period_ns: u64,
    /// The work of a job, ns of CPU time; at most the period.
    pub work_ns: u64,
}

impl Parameters for Modem {
    const NAME: &'static str = "modem";
    const ABOUT: &'static str =
        "a periodic job with its deadline at the period's end; keys: period, job_work";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let period_ns = keys.duration_ns("period")?.unwrap_or(16_000_000);
        let work_ns = keys.duration_ns("job_work")?.unwrap_or(period_ns * 15 / 100);
        if period_ns < 100_000 {
            return Err(keys.mistake("period", "\"period\" must be 100us or more"));
        }
        if work_ns > period_ns {
            return Err(keys.mistake("job_work", "\"job_work\" must be at most the period"));
        }
        Ok(Self { period_ns, work_ns })
    }
}
