//! The parameters of the editor's window.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;
use crate::screen::{self, Place, Size};

/// The width and height of a character, in pixels.
pub const CELL: (i16, i16) = (6, 13);
/// The work that the editor does for a key unless the scenario gives another, ns of CPU time.
const WORK_NS: u64 = 2_000_000;
/// The size of the window unless the scenario gives another: 80 columns, 24 rows.
const USUAL: Size = Size { width: 480, height: 312 };

/// The editor sleeps until a key comes, works, draws the character, and begins a new line where one is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Editor {
    /// The work that the editor does for a key, ns of CPU time.
    pub work_ns: u64,
    /// The size of the window; it holds a character.
    pub size: Size,
    /// The place of the window.
    pub at: Place,
}

impl Parameters for Editor {
    const NAME: &'static str = "x11-editor";
    const ABOUT: &'static str =
        "an X11 client that works for each key and draws its character; keys: work, size, at";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let work_ns = keys.duration_ns("work")?.unwrap_or(WORK_NS);
        let size = screen::size(keys, USUAL)?;
        if size.width < CELL.0.unsigned_abs() || size.height < CELL.1.unsigned_abs() {
            return Err(keys.mistake("size", "\"size\" must hold a character, 6x13"));
        }
        Ok(Self { work_ns, size, at: screen::place(keys)?.unwrap_or_default() })
    }

    fn needs_display(&self) -> bool {
        true
    }
}
