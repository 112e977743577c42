//! `x11-game`: an adaptive game that draws as many frames as it gets CPU time for.

use super::observer;
use super::server::Size;
use super::surface::Surface;
use crate::keys::Keys;
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::{Stage, Start};

/// The kind of task.
pub static GAME: Game = Game;

/// The usual size of its window.
const USUAL: Size = Size { width: 640, height: 480 };
/// What a frame costs unless the scenario says, ns.
const WORK_NS: u64 = 10_000_000;
/// Work between two looks at the clock, ns: what the longest gap is known to.
const PIECE_NS: u64 = 100_000;

/// Works, draws its whole window, begins the next frame: it takes every cycle, and its frames per second are its measure
/// (thesis, section 6.1). It reads keys, as a game that is played does.
#[derive(Debug)]
pub struct Game;

#[derive(Debug)]
struct Gaming {
    work_ns: u64,
    size: Size,
    at: (i16, i16),
}

impl Kind for Game {
    fn name(&self) -> &'static str {
        "x11-game"
    }

    fn about(&self) -> &'static str {
        "an X11 client that draws frames without a pause by MIT-SHM; keys: frame_work, size, at"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let work_ns = keys.duration_ns("frame_work")?.unwrap_or(WORK_NS);
        if work_ns < PIECE_NS {
            return Err(keys.mistake("frame_work", "\"frame_work\" must be 100us or more"));
        }
        let size = observer::size(keys, USUAL)?;
        Ok(Box::new(Gaming { work_ns, size, at: observer::place(keys)?.unwrap_or_default() }))
    }
}

impl Role for Gaming {
    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let mut surface = Surface::open(observer::display(stage)?, stage.task_name(), self.at, self.size)?;
        let start = stage.start_line()?;
        let mut round = Round { stage, start, last_ns: start.measure_from_ns, gap_ns: 0 };
        let (mut frames, mut shown, mut keys) = (0_u32, 0_u64, 0);
        let (mut begun_ns, mut cpu_before_ns) = (None, 0);
        let pieces = self.work_ns.div_ceil(PIECE_NS);
        while !stage.over() {
            if begun_ns.is_none() && stage.now_ns() >= start.measure_from_ns {
                (begun_ns, cpu_before_ns) = (Some(stage.now_ns()), stage.cpu_ns());
            }
            for _ in 0..pieces {
                stage.work(self.work_ns / pieces);
                round.look();
            }
            draw(&mut surface, frames);
            surface.present()?;
            keys += surface.keys_pressed()?;
            frames = frames.wrapping_add(1);
            shown += u64::from(begun_ns.is_some() && round.look() < start.measure_to_ns);
        }
        let (lasted_ns, cpu_ns) = match begun_ns {
            Some(begun_ns) => (stage.now_ns() - begun_ns, stage.cpu_ns() - cpu_before_ns),
            None => (0, 0),
        };
        let mut metrics = Metrics::new();
        metrics.ratio("frames_per_second", shown as f64 * 1e9 / stage.duration_ns() as f64);
        metrics.ratio("cpu_share", cpu_ns as f64 / lasted_ns.max(1) as f64);
        metrics.greatest("gap_ns_max", round.gap_ns);
        if keys > 0 {
            metrics.count("keys_read", u64::from(keys));
        }
        Ok(metrics)
    }
}

/// The longest time that the game stood still, for want of the CPU or of the X server.
struct Round<'a> {
    stage: &'a Stage,
    start: Start,
    last_ns: u64,
    gap_ns: u64,
}

impl Round<'_> {
    /// Looks at the clock.
    fn look(&mut self) -> u64 {
        let now_ns = self.stage.now_ns();
        if (self.start.measure_from_ns..self.start.measure_to_ns).contains(&now_ns) {
            self.gap_ns = self.gap_ns.max(now_ns - self.last_ns);
            self.last_ns = now_ns;
        }
        now_ns
    }
}

/// Bands that move: each frame differs from the one before everywhere.
fn draw(surface: &mut Surface, frame: u32) {
    for (row, pixels) in (frame..).zip(surface.rows()) {
        pixels.fill(row.wrapping_mul(0x0003_0507) & 0x00ff_ffff);
    }
}
