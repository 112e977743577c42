//! The parameters of the game with a window.

use super::Parameters;
use crate::keys::Keys;
use crate::kinds::Game as Play;
use crate::mistake::Mistake;
use crate::screen::{self, Place, Size};

/// The size of the game's window unless the scenario gives another.
const USUAL: Size = Size { width: 640, height: 480 };

/// The game of the kind `game`, but with a window: it draws each frame over its whole window. It also reads
/// keys, as a game does while a person plays it.
#[derive(Clone, Debug, PartialEq)]
pub struct Game {
    /// The game without its window.
    pub play: Play,
    /// The size of the window.
    pub size: Size,
    /// The place of the window.
    pub at: Place,
    /// How frames get to the screen.
    pub output: Output,
}

/// How frames get to the screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// The X server copies the frames (MIT-SHM).
    Server,
    /// The frames bypass the X server, as in direct rendering (Quake in the thesis, section 6.2), except for
    /// the first frames, the game's title. After these the game needs the server only for input.
    Direct,
}

impl Parameters for Game {
    const NAME: &'static str = "x11-game";
    const ABOUT: &'static str = "an X11 client that draws frames without a pause by MIT-SHM; keys: \
                                 frame_work, turned_to, size, at, output (\"server\", or \"direct\": \
                                 past it, with the mouse read)";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let play = Play::parse(keys)?;
        let size = screen::size(keys, USUAL)?;
        let output = match keys.text("output")?.as_deref() {
            None | Some("server") => Output::Server,
            Some("direct") => Output::Direct,
            Some(_) => return Err(keys.mistake("output", "\"output\" must be \"server\" or \"direct\"")),
        };
        Ok(Self { play, size, at: screen::place(keys)?.unwrap_or_default(), output })
    }

    fn needs_display(&self) -> bool {
        true
    }
}
