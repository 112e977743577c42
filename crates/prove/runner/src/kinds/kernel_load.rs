//! The kernel load: one write call copies a large buffer to a file, over and over (Goel et al. 2002, section
//! 4.2.1: 8 MB, 90 % of the time in the kernel).

use spry_scenario::kinds::KernelLoad;
use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::Stage;

pub(super) fn play(load: &KernelLoad, stage: &Stage) -> Result<Metrics, RunError> {
    let path = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
    let failed = |error| RunError::Failed(format!("{}: {error}", path.display()));
    let buffer = vec![0x5a; load.bytes];
    let file = stage.create_file(&path).map_err(failed)?;
    let start = stage.start_line()?;
    let mut writes = 0;
    while !stage.over() {
        file.write_at_start(&buffer).map_err(failed)?;
        writes += u64::from(start.counts(stage.now_ns()));
    }
    let mut metrics = Metrics::new();
    metrics.count("writes", writes);
    Ok(metrics)
}
