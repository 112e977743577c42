//! `x11-player`: the movie player with a real screen, a window that is drawn into by MIT-SHM.

use super::observer;
use super::server::Size;
use super::surface::Surface;
use crate::keys::Keys;
use crate::kinds::player::{Movie, Screen};
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;

/// The kind of task.
pub static PLAYER: Player = Player;

/// A frame of the thesis' film (section 4.3).
const FRAME: (u16, u16) = (352, 288);

/// The player of the plain kind, but each frame that is shown is enlarged, put to a window, and waited for until the server has drawn it.
#[derive(Debug)]
pub struct Player;

#[derive(Debug)]
struct Playing {
    movie: Movie,
    zoom: u16,
    at: (i16, i16),
}

impl Kind for Player {
    fn name(&self) -> &'static str {
        "x11-player"
    }

    fn about(&self) -> &'static str {
        "the movie player as an X11 client that draws by MIT-SHM; keys: zoom, at, and the player's"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let movie = Movie::parse(keys)?;
        let zoom = match keys.whole("zoom")? {
            None => 2,
            Some(zoom @ 1..=8) => zoom as u16,
            Some(zoom) => {
                return Err(keys.mistake("zoom", format!("\"zoom\" must be from 1 to 8, not {zoom}")));
            }
        };
        Ok(Box::new(Playing { movie, zoom, at: observer::place(keys)?.unwrap_or_default() }))
    }
}

impl Role for Playing {
    fn threads(&self) -> u32 {
        self.movie.threads()
    }

    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let size = Size { width: FRAME.0 * self.zoom, height: FRAME.1 * self.zoom };
        let surface = Surface::open(observer::display(stage)?, stage.task_name(), self.at, size)?;
        self.movie.play_on(
            stage,
            &mut Window { surface, zoom: self.zoom.into(), line: Vec::with_capacity(size.width.into()) },
        )
    }
}

/// The player's window.
struct Window {
    surface: Surface,
    zoom: usize,
    line: Vec<u32>,
}

impl Screen for Window {
    /// Enlarges the frame's picture line by line, as a player does whose screen cannot, and shows it.
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
