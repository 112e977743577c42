//! A trace as comma-separated values (RFC 4180), one line an event; a field that the event does
//! not have is empty.

use std::io::Write;

use spry_trace::event::Event;
use spry_trace::{Header, Stamped};

use super::row::{COLUMNS, Cell, Row};
use super::tasks::{News, Tasks};
use super::{Export, ExportError};

/// Writes events as comma-separated values, one line an event.
pub struct CsvExport<W: Write> {
    writer: csv::Writer<W>,
    tasks: Tasks,
}

impl<W: Write> CsvExport<W> {
    /// Writes the line of column names.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn new(out: W, header: &Header) -> Result<CsvExport<W>, ExportError> {
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(out);
        writer.write_record(COLUMNS.map(|(name, _)| name))?;
        Ok(CsvExport { writer, tasks: Tasks::new(header) })
    }
}

impl<W: Write> Export for CsvExport<W> {
    fn event(&mut self, stamped: &Stamped) -> Result<(), ExportError> {
        let news = self.tasks.learn(stamped.cpu, &stamped.event);
        if matches!(stamped.event, Event::Task(_)) && news == News::Nothing {
            return Ok(());
        }
        for cell in Row::new(stamped, &self.tasks).cells() {
            match cell {
                Cell::Null => self.writer.write_field([])?,
                Cell::Int(value) => {
                    let mut digits = [0; 20];
                    self.writer.write_field(decimal(*value, &mut digits))?;
                }
                Cell::Signed(value) => self.writer.write_field(value.to_string())?,
                Cell::Text(text) => self.writer.write_field(text.as_bytes())?,
            }
        }
        self.writer.write_record(None::<&[u8]>)?;
        self.tasks.forget(&stamped.event);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), ExportError> {
        Ok(self.writer.flush()?)
    }
}

/// The decimal digits of a number, without an allocation an event and column.
fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}
