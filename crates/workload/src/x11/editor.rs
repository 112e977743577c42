//! `x11-editor`: an editor's window that draws each key it receives.

use std::time::Duration;

use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{ChangeGCAux, ConnectionExt as _};

use super::keys::Keyboard;
use super::server::Size;
use super::surface::ClientWindow;
use super::{X11Error, observer};
use crate::keys::Keys;
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;

/// The kind of task.
pub static EDITOR: Editor = Editor;

/// Every X server has this font, 6 by 13 pixels a character.
const FONT: &[u8] = b"fixed";
const CELL: (i16, i16) = (6, 13);
/// What a key costs unless the scenario says.
const WORK_NS: u64 = 2_000_000;
/// The usual size: 80 columns, 24 rows.
const USUAL: Size = Size { width: 480, height: 312 };
/// How often it looks whether the scenario is over.
const ROUND: Duration = Duration::from_millis(100);

/// Sleeps until a key comes, works, draws the character, and wraps lines.
#[derive(Debug)]
pub struct Editor;

#[derive(Debug)]
struct Editing {
    work_ns: u64,
    size: Size,
    at: (i16, i16),
}

impl Kind for Editor {
    fn name(&self) -> &'static str {
        "x11-editor"
    }

    fn about(&self) -> &'static str {
        "an X11 client that works for each key and draws its character; keys: work, size, at"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let work_ns = keys.duration_ns("work")?.unwrap_or(WORK_NS);
        let size = observer::size(keys, USUAL)?;
        if size.width < CELL.0.unsigned_abs() || size.height < CELL.1.unsigned_abs() {
            return Err(keys.mistake("size", "\"size\" must hold a character, 6x13"));
        }
        Ok(Box::new(Editing { work_ns, size, at: observer::place(keys)?.unwrap_or_default() }))
    }
}

impl Role for Editing {
    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let window = ClientWindow::open(observer::display(stage)?, stage.task_name(), self.at, self.size)?;
        let mut page = Page::new(window)?;
        let start = stage.start_line()?;
        let mut keys = 0;
        while !stage.over() {
            let round_ns = super::clock::after(ROUND).min(start.measure_to_ns);
            let Some(event) = page.window.client().event(Some(round_ns))? else { continue };
            let Event::KeyPress(press) = event else { continue };
            let Some(letter) = page.keyboard.letter(&press) else { continue };
            stage.work(self.work_ns);
            page.write(letter)?;
            keys += u64::from(stage.measuring(stage.now_ns()));
        }
        let mut metrics = Metrics::new();
        metrics.count("keys_drawn", keys);
        Ok(metrics)
    }
}

/// A window with text in it.
struct Page {
    window: ClientWindow,
    keyboard: Keyboard,
    columns: i16,
    rows: i16,
    column: i16,
    row: i16,
}

impl Page {
    fn new(window: ClientWindow) -> Result<Self, X11Error> {
        let connection = window.client().connection();
        let font = connection.generate_id()?;
        connection.open_font(font, FONT)?.check()?;
        connection.change_gc(window.gc(), &ChangeGCAux::new().font(font))?.check()?;
        let keyboard = Keyboard::read(window.client())?;
        let cells = |side: u16, cell: i16| i16::try_from(side).unwrap_or(i16::MAX) / cell;
        let (columns, rows) = (cells(window.size().width, CELL.0), cells(window.size().height, CELL.1));
        Ok(Self { window, keyboard, columns, rows, column: 0, row: 0 })
    }

    /// Draws a character where the last one ended; a full page begins again, empty.
    fn write(&mut self, letter: char) -> Result<(), X11Error> {
        let connection = self.window.client().connection();
        if letter == '\n' || self.column == self.columns {
            (self.column, self.row) = (0, self.row + 1);
        }
        if self.row == self.rows {
            self.row = 0;
            connection.clear_area(false, self.window.id(), 0, 0, 0, 0)?;
        }
        // A line's end shows as a blank, so that every key draws something.
        let glyph = u8::try_from(letter).ok().filter(u8::is_ascii_graphic).unwrap_or(b' ');
        let (x, y) = (self.column * CELL.0, (self.row + 1) * CELL.1 - 2);
        connection.image_text8(self.window.id(), self.window.gc(), x, y, &[glyph])?;
        connection.flush()?;
        self.column += i16::from(letter != '\n');
        Ok(())
    }
}
