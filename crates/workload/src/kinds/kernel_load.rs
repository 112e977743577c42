//! The kernel load: a large buffer copied to a file by one write call, over and over (Goel et al. 2002, section 6.1: 8 MB,
//! 90 % of the time in the kernel).

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{Kind, Role};
use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct KernelLoad;

impl Kind for KernelLoad {
    fn name(&self) -> &'static str {
        "kernel-load"
    }

    fn about(&self) -> &'static str {
        "a large buffer written to a file by one call, repeated; keys: bytes"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let bytes = keys.bytes("bytes")?.unwrap_or(8 << 20);
        if !(1..=1 << 30).contains(&bytes) {
            return Err(keys.mistake("bytes", "\"bytes\" must be from 1 to 1 GiB"));
        }
        Ok(Box::new(Writes { bytes: bytes as usize }))
    }
}

#[derive(Debug)]
struct Writes {
    bytes: usize,
}

impl Role for Writes {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let path = stage.scratch().join(format!("{}-{}", stage.task_name(), stage.instance()));
        let failed = |error| RunError::Failed(format!("{}: {error}", path.display()));
        let buffer = vec![0x5a; self.bytes];
        let file = File::create(&path).map_err(failed)?;
        let start = stage.start_line()?;
        let mut writes = 0;
        while !stage.over() {
            file.write_all_at(&buffer, 0).map_err(failed)?;
            let now_ns = stage.now_ns();
            writes += u64::from((start.measure_from_ns..start.measure_to_ns).contains(&now_ns));
        }
        let mut metrics = Metrics::new();
        metrics.count("writes", writes);
        Ok(metrics)
    }
}
