//! `x11-game`: an adaptive game that draws as many frames as it gets CPU time for.

use super::observer;
use super::server::Size;
use super::surface::Surface;
use crate::keys::Keys;
use crate::kinds::game::{Canvas, Play};
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;

/// The kind of task.
pub static GAME: Game = Game;

/// The usual size of its window.
const USUAL: Size = Size { width: 640, height: 480 };

/// The game of the plain kind, but each frame is drawn over its whole window. It reads keys, as a game that is played does.
#[derive(Debug)]
pub struct Game;

#[derive(Debug)]
struct Playing {
    play: Play,
    size: Size,
    at: (i16, i16),
    output: Output,
}

/// How frames come to the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Output {
    /// The server copies them (MIT-SHM).
    Server,
    /// Past the server, as direct rendering does (Quake in the thesis, section 6.2): the server is needed for input alone.
    Direct,
}

impl Kind for Game {
    fn name(&self) -> &'static str {
        "x11-game"
    }

    fn about(&self) -> &'static str {
        "an X11 client that draws frames without a pause by MIT-SHM; keys: frame_work, turned_to, size, at, output (\"server\", or \"direct\": past it, with the mouse read)"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let play = Play::parse(keys)?;
        let size = observer::size(keys, USUAL)?;
        let output = match keys.text("output")?.as_deref() {
            None | Some("server") => Output::Server,
            Some("direct") => Output::Direct,
            Some(_) => return Err(keys.mistake("output", "\"output\" must be \"server\" or \"direct\"")),
        };
        Ok(Box::new(Playing { play, size, at: observer::place(keys)?.unwrap_or_default(), output }))
    }
}

impl Role for Playing {
    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let surface = Surface::open(observer::display(stage)?, stage.task_name(), self.at, self.size)?;
        if self.output == Output::Direct {
            surface.follow_pointer()?;
        }
        let mut window = Window { surface, output: self.output, keys: 0 };
        let mut metrics = self.play.play_on(stage, &mut window)?;
        if window.keys > 0 {
            metrics.count("keys_read", window.keys);
        }
        Ok(metrics)
    }
}

/// The game's window.
struct Window {
    surface: Surface,
    output: Output,
    keys: u64,
}

impl Canvas for Window {
    /// Bands that move: each frame differs from the one before everywhere.
    fn draw(&mut self, frame: u32) -> Result<(), RunError> {
        for (row, pixels) in (frame..).zip(self.surface.rows()) {
            pixels.fill(row.wrapping_mul(0x0003_0507) & 0x00ff_ffff);
        }
        if self.output == Output::Server {
            self.surface.present()?;
        }
        self.keys += u64::from(self.surface.keys_pressed()?);
        Ok(())
    }
}
