//! Traces in other programs' formats: each exporter is fed event by event and keeps bounded memory.

mod csv;
mod ftrace;
mod parquet;
mod perfetto;
mod protobuf;
mod row;
mod tasks;
mod tracks;

use std::io::{self, Write};

use spry_trace::{Header, Stamped};

pub use self::csv::CsvExport;
pub use self::parquet::ParquetExport;
pub use self::perfetto::PerfettoExport;

/// Why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The output could not be written.
    #[error("cannot write the export")]
    Io(#[from] io::Error),
    /// The Parquet writer refused.
    #[error("cannot write Parquet")]
    Parquet(#[source] ::parquet::errors::ParquetError),
    /// The CSV writer refused.
    #[error("cannot write CSV")]
    Csv(#[source] ::csv::Error),
}

impl From<::csv::Error> for ExportError {
    fn from(error: ::csv::Error) -> ExportError {
        if !error.is_io_error() {
            return ExportError::Csv(error);
        }
        match error.into_kind() {
            ::csv::ErrorKind::Io(error) => ExportError::Io(error),
            kind => ExportError::Io(io::Error::other(format!("{kind:?}"))),
        }
    }
}

impl From<::parquet::errors::ParquetError> for ExportError {
    fn from(error: ::parquet::errors::ParquetError) -> ExportError {
        use ::parquet::errors::ParquetError;
        match error {
            ParquetError::External(cause) => match cause.downcast::<io::Error>() {
                Ok(cause) => ExportError::Io(*cause),
                Err(cause) => ExportError::Parquet(ParquetError::External(cause)),
            },
            error => ExportError::Parquet(error),
        }
    }
}

/// A trace on its way into another format.
///
/// Events come in the order of their time, as the reader merges them; `finish` must be called, or the end of
/// the output is missing.
pub trait Export {
    /// Takes the next event.
    ///
    /// # Errors
    /// Where the output cannot be written.
    fn event(&mut self, stamped: &Stamped) -> Result<(), ExportError>;

    /// Writes the data that are still buffered, and flushes the output.
    ///
    /// # Errors
    /// Where the output cannot be written.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// The formats that a trace can be exported to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Protobuf for Perfetto's viewer and `trace_processor`.
    Perfetto,
    /// One wide Parquet table of events.
    Parquet,
    /// The table of the Parquet form as comma-separated values (RFC 4180).
    Csv,
}

impl Format {
    /// All formats that a trace can be exported to.
    pub const ALL: [Format; 3] = [Format::Perfetto, Format::Parquet, Format::Csv];

    /// The format's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Perfetto => "perfetto",
            Format::Parquet => "parquet",
            Format::Csv => "csv",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// An exporter to this format. `out` should be buffered.
    ///
    /// # Errors
    /// Where the head of the output cannot be written.
    pub fn exporter<'w, W: Write + Send + 'w>(
        self,
        out: W,
        header: &Header,
    ) -> Result<Box<dyn Export + 'w>, ExportError> {
        Ok(match self {
            Format::Perfetto => Box::new(PerfettoExport::new(out, header)?),
            Format::Parquet => Box::new(ParquetExport::new(out, header)?),
            Format::Csv => Box::new(CsvExport::new(out, header)?),
        })
    }
}
