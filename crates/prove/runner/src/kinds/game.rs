//! The adaptive game: each frame takes a fixed amount of work, and the game draws as many frames as its CPU
//! time allows (Quake in the thesis, section 4.3).

use std::collections::VecDeque;

use spry_scenario::kinds::Game;
use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::{Stage, Start};

/// A game that the user has turned to counts as favoured once it has had this part of a CPU for this long.
const FAVOURED_PERCENT: u64 = 80;
const FAVOURED_FOR_NS: u64 = 500_000_000;

pub(super) fn play(game: Game, stage: &Stage) -> Result<Metrics, RunError> {
    play_on(game, stage, &mut NoCanvas)
}

/// The surface on which a game draws its frames.
pub(super) trait Canvas {
    /// Draws a frame. Returns when the frame can be seen.
    fn draw(&mut self, frame: u32) -> Result<(), RunError>;
}

/// The canvas of the plain game, which has no display: drawing takes no time.
struct NoCanvas;

impl Canvas for NoCanvas {
    fn draw(&mut self, _: u32) -> Result<(), RunError> {
        Ok(())
    }
}

/// Plays until the run is over, on any canvas: the game works, draws, and begins the next frame. It takes
/// all the CPU time that it gets. The result is the number of frames that it finishes (thesis, section
/// 6.1).
pub(super) fn play_on(game: Game, stage: &Stage, canvas: &mut dyn Canvas) -> Result<Metrics, RunError> {
    let pieces = game.frame_ns.div_ceil(Game::PIECE_NS);
    let mut watch = GameWatch::new(stage, stage.start_line()?, game.turned_to_ns);
    let mut frame = 0_u32;
    'playing: loop {
        for _ in 0..pieces {
            stage.work(game.frame_ns / pieces);
            if watch.look() == Look::Over {
                break 'playing;
            }
        }
        canvas.draw(frame)?;
        frame = frame.wrapping_add(1);
        watch.frame_is_done();
    }
    Ok(watch.metrics())
}

/// The moment at which the game first saw that the measured time had begun, and the CPU time that the game
/// had used by then.
#[derive(Clone, Copy)]
struct Beginning {
    at_ns: u64,
    cpu_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    GoOn,
    Over,
}

/// Measures the game: the frames that it finishes, its CPU time, and its longest standstill. The game stands
/// still while it has no CPU or waits for the X server.
struct GameWatch<'a> {
    stage: &'a Stage,
    start: Start,
    begun: Option<Beginning>,
    last_ns: u64,
    gap_ns: u64,
    frames: u32,
    favour: Option<Favour>,
}

/// Measures how long a game waits for most of a CPU after the user has turned to it.
struct Favour {
    turned_ns: u64,
    /// The latest readings of the clock, over half a second or a little more. Each has the time and the CPU
    /// time that the game had used until then, ns.
    looks: VecDeque<(u64, u64)>,
    /// The time from the user's turn to the game until the game first had most of a CPU, ns.
    after_ns: Option<u64>,
}

impl Favour {
    fn look(&mut self, now_ns: u64, cpu_ns: impl Fn() -> u64) {
        let is_due = self.looks.back().map_or(self.turned_ns, |&(at_ns, _)| at_ns + FAVOURED_FOR_NS / 50);
        if self.after_ns.is_some() || now_ns < is_due {
            return;
        }
        let cpu_ns = cpu_ns();
        self.looks.push_back((now_ns, cpu_ns));
        while self.looks.get(1).is_some_and(|&(at_ns, _)| now_ns - at_ns >= FAVOURED_FOR_NS) {
            self.looks.pop_front();
        }
        let (from_ns, had_ns) = self.looks[0];
        let lasted_ns = now_ns - from_ns;
        if lasted_ns >= FAVOURED_FOR_NS && (cpu_ns - had_ns) * 100 >= lasted_ns * FAVOURED_PERCENT {
            // The game has had most of a CPU since the first of these readings.
            self.after_ns = Some(from_ns - self.turned_ns);
        }
    }
}

impl<'a> GameWatch<'a> {
    fn new(stage: &'a Stage, start: Start, turned_to_ns: Option<u64>) -> Self {
        let turned_to_ns = turned_to_ns.map(|after_ns| start.measure_from_ns + after_ns);
        let favour =
            turned_to_ns.map(|turned_ns| Favour { turned_ns, looks: VecDeque::new(), after_ns: None });
        Self { stage, start, begun: None, last_ns: start.measure_from_ns, gap_ns: 0, frames: 0, favour }
    }

    /// Reads the clock and updates the measurements.
    fn look(&mut self) -> Look {
        let now_ns = self.stage.now_ns();
        if now_ns >= self.start.measure_from_ns {
            if self.begun.is_none() {
                self.begun = Some(Beginning { at_ns: now_ns, cpu_ns: self.stage.cpu_ns() });
            }
            self.gap_ns = self.gap_ns.max(now_ns.min(self.start.measure_to_ns).saturating_sub(self.last_ns));
            self.last_ns = now_ns;
        }
        if let Some(favour) = &mut self.favour {
            favour.look(now_ns, || self.stage.cpu_ns());
        }
        if now_ns >= self.start.measure_to_ns || self.stage.over() { Look::Over } else { Look::GoOn }
    }

    /// Counts a frame if it was finished within the measured time.
    fn frame_is_done(&mut self) {
        self.frames += u32::from(self.start.counts(self.stage.now_ns()));
    }

    fn metrics(&self) -> Metrics {
        let (lasted_ns, cpu_ns) = self
            .begun
            .map_or((0, 0), |begun| (self.stage.now_ns() - begun.at_ns, self.stage.cpu_ns() - begun.cpu_ns));
        let mut metrics = Metrics::new();
        metrics.ratio("frames_per_second", f64::from(self.frames) * 1e9 / self.stage.duration_ns() as f64);
        metrics.ratio("cpu_share", cpu_ns as f64 / lasted_ns.max(1) as f64);
        metrics.greatest("gap_ns_max", self.gap_ns);
        if let Some(favour) = &self.favour {
            let until_end_ns = self.start.measure_to_ns.saturating_sub(favour.turned_ns);
            metrics.greatest("favoured_after_ns", favour.after_ns.unwrap_or(until_end_ns));
        }
        metrics
    }
}
