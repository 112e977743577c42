//! `x11-player`: the movie player with a window on an X display. It draws into the window by MIT-SHM.

use spry_scenario::kinds::x11::Player;
use spry_scenario::metrics::Metrics;
use spry_scenario::screen::Size;

use super::observer;
use crate::RunError;
use crate::kinds::player::{Screen, play_on};
use crate::stage::Stage;
use crate::x11::surface::Surface;

/// The width and height of a frame of the thesis' film (section 4.3), in pixels.
const FRAME: (u16, u16) = (352, 288);

pub(in crate::kinds) fn play(player: &Player, stage: &Stage) -> Result<Metrics, RunError> {
    let size = Size { width: FRAME.0 * player.zoom, height: FRAME.1 * player.zoom };
    let surface = Surface::open(observer::display(stage)?, stage.task_name(), player.at, size)?;
    let line = Vec::with_capacity(size.width.into());
    play_on(&player.film, stage, &mut Window { surface, zoom: player.zoom.into(), line })
}

/// The player's window.
struct Window {
    surface: Surface,
    zoom: usize,
    line: Vec<u32>,
}

impl Screen for Window {
    /// Enlarges the frame's picture line by line, as a player does if the screen cannot scale, and
    /// shows the picture.
    fn show(&mut self, frame: u64) -> Result<(), RunError> {
        let Self { surface, zoom, line } = self;
        for (number, row) in surface.rows().enumerate() {
            if number % *zoom == 0 {
                let seed = (frame as u32).wrapping_mul(3).wrapping_add((number / *zoom) as u32);
                line.clear();
                line.extend((0..u32::from(FRAME.0)).flat_map(|column| {
                    let pixel = (seed ^ column).wrapping_mul(0x0001_0305) & 0x00ff_ffff;
                    std::iter::repeat_n(pixel, *zoom)
                }));
            }
            row.copy_from_slice(line);
        }
        Ok(surface.present()?)
    }
}
