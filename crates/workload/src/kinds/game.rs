//! The adaptive game: frames of a fixed amount of work, as many as it gets the CPU for (Quake in the thesis, section 4.3).

use super::{Kind, Role};
use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// Work between two looks at the clock, ns: what the longest gap is known to.
const PIECE_NS: u64 = 100_000;

/// The kind.
pub(super) struct Game;

impl Kind for Game {
    fn name(&self) -> &'static str {
        "game"
    }

    fn about(&self) -> &'static str {
        "frames of a fixed amount of work, without a pause; keys: frame_work"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let frame_ns = keys.duration_ns("frame_work")?.unwrap_or(10_000_000);
        if frame_ns < PIECE_NS {
            return Err(keys.mistake("frame_work", "\"frame_work\" must be 100us or more"));
        }
        Ok(Box::new(Frames { frame_ns }))
    }
}

#[derive(Debug)]
struct Frames {
    frame_ns: u64,
}

impl Role for Frames {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let start = stage.start_line()?;
        let pieces = self.frame_ns.div_ceil(PIECE_NS);
        let piece_ns = self.frame_ns / pieces;
        while stage.now_ns() < start.measure_from_ns && !stage.over() {
            stage.work(piece_ns);
        }
        let (begun_ns, cpu_before_ns) = (stage.now_ns(), stage.cpu_ns());
        let (mut frames, mut gap_ns, mut last_ns) = (0, 0, begun_ns);
        'playing: loop {
            for _ in 0..pieces {
                stage.work(piece_ns);
                let now_ns = stage.now_ns();
                if now_ns >= start.measure_to_ns || stage.over() {
                    break 'playing;
                }
                gap_ns = gap_ns.max(now_ns - last_ns);
                last_ns = now_ns;
            }
            frames += 1;
        }
        let (lasted_ns, cpu_ns) = (stage.now_ns() - begun_ns, stage.cpu_ns() - cpu_before_ns);
        let mut metrics = Metrics::new();
        metrics.ratio("frames_per_second", f64::from(frames) / (stage.duration_ns() as f64 / 1e9));
        metrics.ratio("cpu_share", cpu_ns as f64 / lasted_ns.max(1) as f64);
        metrics.greatest("gap_ns_max", gap_ns);
        Ok(metrics)
    }
}
