//! The command `spry export`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use spry_report::export::Format;

use crate::args::{ExportArgs, FormatArg};
use crate::source::{self, FileReader};

/// Exports a whole trace.
pub fn run(args: &ExportArgs) -> Result<ExitCode> {
    let (reader, bytes) = source::open(&args.file, 0)?;
    let format = match args.to {
        FormatArg::Perfetto => Format::Perfetto,
        FormatArg::Parquet => Format::Parquet,
        FormatArg::Csv => Format::Csv,
    };
    if args.output == Path::new("-") {
        return export(reader, bytes, format, io::stdout());
    }
    let name = args.output.display();
    let file = File::create(&args.output).with_context(|| format!("cannot create {name}"))?;
    export(reader, bytes, format, file).with_context(|| name.to_string())
}

fn export(mut reader: FileReader, bytes: u64, format: Format, out: impl Write + Send) -> Result<ExitCode> {
    let header = reader.header().clone();
    let mut exporter = format.exporter(BufWriter::with_capacity(1 << 20, out), &header)?;
    source::read(&mut reader, bytes, |stamped| {
        exporter.event(stamped)?;
        Ok(ControlFlow::Continue(()))
    })?;
    exporter.finish()?;
    Ok(ExitCode::SUCCESS)
}
