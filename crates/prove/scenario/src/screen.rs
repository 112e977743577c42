//! Sizes and places on a display.

use crate::keys::Keys;
use crate::mistake::Mistake;

/// The size of a display or of a window in pixels; the depth is 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pixels from left to right, 1 to 32,767.
    pub width: u16,
    /// Pixels from top to bottom, 1 to 32,767.
    pub height: u16,
}

/// The upper left corner of a window: its distance from the display's left side and from its upper
/// side, in pixels.
pub type Place = (i16, i16);

impl std::str::FromStr for Size {
    type Err = String;

    /// Reads `1024x768`.
    fn from_str(text: &str) -> Result<Self, String> {
        let side = |part: &str| part.parse().ok().filter(|side| (1..=32_767).contains(side));
        let sides = text.split_once('x').and_then(|(width, height)| Some((side(width)?, side(height)?)));
        let (width, height) = sides
            .ok_or_else(|| format!("{text:?} is no size; a size is WIDTHxHEIGHT in pixels, as 1024x768"))?;
        Ok(Self { width, height })
    }
}

/// Reads where a window goes: `at = [x, y]`, from the display's upper left corner.
pub(crate) fn place(keys: &mut Keys<'_>) -> Result<Option<Place>, Mistake> {
    let Some(sides) = keys.wholes("at")? else { return Ok(None) };
    let side = |side: u64| i16::try_from(side).ok();
    match sides[..] {
        [x, y] => side(x).zip(side(y)),
        _ => None,
    }
    .map(Some)
    .ok_or_else(|| {
        keys.mistake("at", "\"at\" must be [X, Y] in pixels from the upper left corner, as [0, 300]")
    })
}

/// Reads how large a window is: `size = "640x400"`.
pub(crate) fn size(keys: &mut Keys<'_>, usual: Size) -> Result<Size, Mistake> {
    match keys.text("size")? {
        None => Ok(usual),
        Some(text) => text.parse().map_err(|wrong| keys.mistake("size", wrong)),
    }
}
