//! The kinds of tasks that need an X display: clients that draw, a real program, and tasks that type at
//! these or watch them.

mod editor;
mod frames;
mod game;
mod mouse;
mod player;
mod program;
mod typist;

pub use editor::{CELL, Editor};
pub use frames::{FrameRate, Frames};
pub use game::{Game, Output};
pub use mouse::Mouse;
pub use player::Player;
pub use program::{FILES, Program, SoughtWindow};
pub use typist::Typist;

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// Reads the name of the task that is watched or typed at.
fn target(keys: &mut Keys<'_>) -> Result<String, Mistake> {
    keys.text("target")?.ok_or_else(|| keys.missing("target"))
}
