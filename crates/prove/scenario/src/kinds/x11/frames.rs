//! The parameters of the observer that counts frames.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The task counts the frames that another task shows, without its help. Each drawing that covers at least
/// half of the other task's window is a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Frames {
    /// The name of the task that is watched.
    pub target: String,
    /// How many frames it should show.
    pub due: FrameRate,
}

/// How many frames the watched task should show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FrameRate {
    /// A film: this many frames a second.
    PerSecond(f64),
    /// As many frames as the program can draw.
    AsMany,
}

impl Parameters for Frames {
    const NAME: &'static str = "x11-frames";
    const ABOUT: &'static str = "counts the frames that a task shows, by DAMAGE: with fps a film's, \
                                 without a game's; keys: target, fps";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let target = super::target(keys)?;
        let due = keys.number_within("fps", 0.1, 1000.0)?.map_or(FrameRate::AsMany, FrameRate::PerSecond);
        Ok(Self { target, due })
    }

    fn needs_display(&self) -> bool {
        true
    }
}
