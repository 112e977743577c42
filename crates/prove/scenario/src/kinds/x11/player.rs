//! The parameters of the movie player with a window.

use super::Parameters;
use crate::keys::Keys;
use crate::kinds::Player as Film;
use crate::mistake::Mistake;
use crate::screen::{self, Place};

/// The player of the kind `player`, but with a window: it enlarges each frame, puts it into the window, and
/// waits until the X server has drawn it.
#[derive(Clone, Debug, PartialEq)]
pub struct Player {
    /// The player without its window.
    pub film: Film,
    /// How many times wider and higher the window is than a frame, 1 to 8.
    pub zoom: u16,
    /// The place of the window.
    pub at: Place,
}

impl Parameters for Player {
    const NAME: &'static str = "x11-player";
    const ABOUT: &'static str =
        "the movie player as an X11 client that draws by MIT-SHM; keys: zoom, at, and the player's";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let film = Film::parse(keys)?;
        let zoom = match keys.whole("zoom")? {
            None => 2,
            Some(zoom @ 1..=8) => zoom as u16,
            Some(zoom) => {
                return Err(keys.mistake("zoom", format!("\"zoom\" must be from 1 to 8, not {zoom}")));
            }
        };
        Ok(Self { film, zoom, at: screen::place(keys)?.unwrap_or_default() })
    }

    fn threads(&self) -> u32 {
        self.film.threads()
    }

    fn needs_display(&self) -> bool {
        true
    }
}
