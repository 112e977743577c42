//! The parameters of the adaptive game.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The work of a frame where the scenario names none, ns of CPU time.
const WORK_NS: u64 = 10_000_000;

/// Each frame takes a fixed amount of work, and the game draws as many frames as its CPU time allows (Quake
/// in the thesis, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Game {
    /// The work of a frame, ns of CPU time; not less than [`Self::PIECE_NS`].
    pub frame_ns: u64,
    /// The time from the beginning of the measured time until the user turns to the game, ns. `None` if the
    /// scenario names none.
    pub turned_to_ns: Option<u64>,
}

impl Game {
    /// The game does this much work, ns of CPU time, between two readings of the clock. So the longest gap
    /// that the game reports is exact to within this time.
    pub const PIECE_NS: u64 = 100_000;
}

impl Parameters for Game {
    const NAME: &'static str = "game";
    const ABOUT: &'static str =
        "frames of a fixed amount of work, without a pause; keys: frame_work, turned_to";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let frame_ns = keys.duration_ns("frame_work")?.unwrap_or(WORK_NS);
        if frame_ns < Self::PIECE_NS {
            return Err(keys.mistake("frame_work", "\"frame_work\" must be 100us or more"));
        }
        Ok(Self { frame_ns, turned_to_ns: keys.duration_ns("turned_to")? })
    }
}
