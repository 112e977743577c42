//! `x11-editor`: an editor's window that draws each key it receives.

use std::time::Duration;

use spry_scenario::kinds::x11::{CELL, Editor};
use spry_scenario::metrics::Metrics;
use x11rb::connection::Connection as _;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{ChangeGCAux, ConnectionExt as _};

use super::observer;
use crate::RunError;
use crate::stage::Stage;
use crate::x11::X11Error;
use crate::x11::keys::Keyboard;
use crate::x11::surface::ClientWindow;

/// Every X server has this font; its characters have the size [`CELL`].
const FONT: &[u8] = b"fixed";
/// The interval at which the editor checks whether the run is over.
const ROUND: Duration = Duration::from_millis(100);

/// Plays an editor: it sleeps until a key comes, works, draws the character, and begins a new line
/// where one is full.
pub(in crate::kinds) fn play(editor: &Editor, stage: &Stage) -> Result<Metrics, RunError> {
    let window = ClientWindow::open(observer::display(stage)?, stage.task_name(), editor.at, editor.size)?;
    let mut page = Page::new(window)?;
    let start = stage.start_line()?;
    let mut keys = 0;
    while !stage.over() {
        let round_ns = stage.after(ROUND).min(start.measure_to_ns);
        let Some(event) = page.window.client().event(Some(round_ns))? else { continue };
        let Event::KeyPress(press) = event else { continue };
        let Some(letter) = page.keyboard.letter(&press) else { continue };
        stage.work(editor.work_ns);
        page.write(letter)?;
        keys += u64::from(start.counts(stage.now_ns()));
    }
    let mut metrics = Metrics::new();
    metrics.count("keys_drawn", keys);
    Ok(metrics)
}

/// The editor's window and the place of the next character in it.
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

    /// Draws a character after the last one. When the page is full, it becomes empty, and the next
    /// character comes first.
    fn write(&mut self, letter: char) -> Result<(), X11Error> {
        let connection = self.window.client().connection();
        if letter == '\n' || self.column == self.columns {
            (self.column, self.row) = (0, self.row + 1);
        }
        if self.row == self.rows {
            self.row = 0;
            connection.clear_area(false, self.window.id(), 0, 0, 0, 0)?;
        }
        // The end of a line is drawn as a blank, so that every key draws something.
        let glyph = u8::try_from(letter).ok().filter(u8::is_ascii_graphic).unwrap_or(b' ');
        let (x, y) = (self.column * CELL.0, (self.row + 1) * CELL.1 - 2);
        connection.image_text8(self.window.id(), self.window.gc(), x, y, &[glyph])?;
        connection.flush()?;
        self.column += i16::from(letter != '\n');
        Ok(())
    }
}
