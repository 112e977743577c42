//! `x11-game`: an adaptive game that draws as many frames as it gets CPU time for.

use spry_scenario::kinds::x11::{Game, Output};
use spry_scenario::metrics::Metrics;

use super::observer;
use crate::RunError;
use crate::kinds::game::{Canvas, play_on};
use crate::stage::Stage;
use crate::x11::surface::Surface;

/// Where frames bypass the X server, the game shows this many frames, its title, by the server first.
const TITLE: u32 = 20;

pub(in crate::kinds) fn play(game: &Game, stage: &Stage) -> Result<Metrics, RunError> {
    let surface = Surface::open(observer::display(stage)?, stage.task_name(), game.at, game.size)?;
    if game.output == Output::Direct {
        surface.follow_pointer()?;
    }
    let mut window = Window { surface, output: game.output, keys: 0 };
    let mut metrics = play_on(game.play, stage, &mut window)?;
    if window.keys > 0 {
        metrics.count("keys_read", window.keys);
    }
    Ok(metrics)
}

/// The game's window.
struct Window {
    surface: Surface,
    output: Output,
    keys: u64,
}

impl Canvas for Window {
    /// Draws bands that move, so that each frame differs everywhere from the frame before.
    fn draw(&mut self, frame: u32) -> Result<(), RunError> {
        for (row, pixels) in (frame..).zip(self.surface.rows()) {
            pixels.fill(row.wrapping_mul(0x0003_0507) & 0x00ff_ffff);
        }
        if self.output == Output::Server || frame < TITLE {
            self.surface.present()?;
        }
        self.keys += u64::from(self.surface.keys_pressed()?);
        Ok(())
    }
}
