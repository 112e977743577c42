//! The adaptive game: frames of a fixed amount of work, as many as it gets the CPU for (Quake in the thesis, section 4.3).

use std::collections::VecDeque;

use super::{Kind, Role};
use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::stage::{Stage, Start};
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// Work between two looks at the clock, ns: what the longest gap is known to.
const PIECE_NS: u64 = 100_000;
/// A game that is turned to counts as favoured once it has had this part of a CPU for this long.
const FAVOURED_PERCENT: u64 = 80;
const FAVOURED_FOR_NS: u64 = 500_000_000;
/// What a frame costs unless the scenario says, ns.
const WORK_NS: u64 = 10_000_000;

/// The kind.
pub(super) struct Game;

impl Kind for Game {
    fn name(&self) -> &'static str {
        "game"
    }

    fn about(&self) -> &'static str {
        "frames of a fixed amount of work, without a pause; keys: frame_work, turned_to"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        Ok(Box::new(Play::parse(keys)?))
    }
}

/// Where frames are drawn.
pub(crate) trait Canvas {
    /// Draws a frame; it is back when the frame can be seen.
    fn draw(&mut self, frame: u32) -> Result<(), RunError>;
}

/// The plain game's: drawing takes no time.
struct Nowhere;

impl Canvas for Nowhere {
    fn draw(&mut self, _: u32) -> Result<(), RunError> {
        Ok(())
    }
}

/// A game, whatever it draws on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    /// The work of a frame, ns of CPU time.
    frame_ns: u64,
    /// When the user turns to it, ns after the beginning of what is measured, if the scenario says so.
    turned_to_ns: Option<u64>,
}

impl Play {
    /// Reads a game's keys.
    pub(crate) fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let frame_ns = keys.duration_ns("frame_work")?.unwrap_or(WORK_NS);
        if frame_ns < PIECE_NS {
            return Err(keys.mistake("frame_work", "\"frame_work\" must be 100us or more"));
        }
        Ok(Self { frame_ns, turned_to_ns: keys.duration_ns("turned_to")? })
    }

    /// Plays until the run is over: works, draws, begins the next frame. It takes every cycle; the frames that it
    /// finishes are its measure (thesis, section 6.1).
    pub(crate) fn play_on(self, stage: &Stage, canvas: &mut dyn Canvas) -> Result<Metrics, RunError> {
        let pieces = self.frame_ns.div_ceil(PIECE_NS);
        let mut watch = Watch::new(stage, stage.start_line()?, self.turned_to_ns);
        let mut frame = 0_u32;
        'playing: loop {
            for _ in 0..pieces {
                stage.work(self.frame_ns / pieces);
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
}

impl Role for Play {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        self.play_on(stage, &mut Nowhere)
    }
}

/// When the time that is measured was seen to begin.
#[derive(Clone, Copy)]
struct Begun {
    at_ns: u64,
    cpu_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    GoOn,
    Over,
}

/// What the game has to show for its time, and for how long it stood still for want of the CPU or of the X server.
struct Watch<'a> {
    stage: &'a Stage,
    start: Start,
    begun: Option<Begun>,
    last_ns: u64,
    gap_ns: u64,
    frames: u32,
    favour: Option<Favour>,
}

/// How long a game that the user has turned to waits until it has most of a CPU.
struct Favour {
    turned_ns: u64,
    /// Moments of the latest half second and more, and the CPU time had until each, ns.
    looks: VecDeque<(u64, u64)>,
    /// When it had most of a CPU for the first time, ns after the turn.
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
            // It has been favoured since the window's beginning.
            self.after_ns = Some(from_ns - self.turned_ns);
        }
    }
}

impl<'a> Watch<'a> {
    fn new(stage: &'a Stage, start: Start, turned_to_ns: Option<u64>) -> Self {
        let turned_to_ns = turned_to_ns.map(|after_ns| start.measure_from_ns + after_ns);
        let favour =
            turned_to_ns.map(|turned_ns| Favour { turned_ns, looks: VecDeque::new(), after_ns: None });
        Self { stage, start, begun: None, last_ns: start.measure_from_ns, gap_ns: 0, frames: 0, favour }
    }

    /// Looks at the clock.
    fn look(&mut self) -> Look {
        let now_ns = self.stage.now_ns();
        if now_ns >= self.start.measure_from_ns {
            if self.begun.is_none() {
                self.begun = Some(Begun { at_ns: now_ns, cpu_ns: self.stage.cpu_ns() });
            }
            self.gap_ns = self.gap_ns.max(now_ns.min(self.start.measure_to_ns).saturating_sub(self.last_ns));
            self.last_ns = now_ns;
        }
        if let Some(favour) = &mut self.favour {
            favour.look(now_ns, || self.stage.cpu_ns());
        }
        if now_ns >= self.start.measure_to_ns || self.stage.over() { Look::Over } else { Look::GoOn }
    }

    /// Counts a frame if it was finished within the time that is measured.
    fn frame_is_done(&mut self) {
        let now_ns = self.stage.now_ns();
        let is_measured = (self.start.measure_from_ns..self.start.measure_to_ns).contains(&now_ns);
        self.frames += u32::from(is_measured);
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
