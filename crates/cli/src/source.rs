//! Opening traces: Spry's own, perf's and trace-cmd's, told apart by their first bytes.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use spry_import::Import;
use spry_trace::reader::Ending;
use spry_trace::{Header, Reader, Stamped, Totals};

use crate::output::say;
use crate::progress;

/// A trace on disk.
pub enum FileReader {
    /// Recorded by Spry.
    Own(Box<Reader<File>>),
    /// Recorded by perf or trace-cmd.
    Imported(Box<Import<File>>),
}

impl FileReader {
    /// What the trace says of the machine.
    pub fn header(&self) -> &Header {
        match self {
            FileReader::Own(reader) => reader.header(),
            FileReader::Imported(import) => import.header(),
        }
    }

    /// What reading has found so far.
    pub fn totals(&self) -> Totals {
        match self {
            FileReader::Own(reader) => reader.totals(),
            FileReader::Imported(import) => import.totals(),
        }
    }

    /// The next event of any CPU, in order of time.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<&Stamped>> {
        Ok(match self {
            FileReader::Own(reader) => reader.next_event()?,
            FileReader::Imported(import) => import.next_event()?,
        })
    }
}

/// Opens a trace to be read from its start, or from some nanoseconds after it. Those of perf and trace-cmd are always
/// read from their start: it is there that tasks get their names.
pub fn open(path: &Path, from_ns: u64) -> Result<FileReader> {
    let name = path.display();
    let mut file = File::open(path)
        .with_context(|| format!("cannot open {name} (record one with `spry record -o {name}`)"))?;
    let is_directory = file.metadata().is_ok_and(|data| data.is_dir());
    ensure!(!is_directory, "{name} is a directory; give a file (`perf record` without --threads writes one)");
    if Import::recognises(&mut file).with_context(|| format!("cannot read {name}"))? {
        let import = Import::open(file).with_context(|| name.to_string())?;
        return Ok(FileReader::Imported(Box::new(import)));
    }
    let reader = if from_ns == 0 {
        Reader::new(file)
    } else {
        let start_ns = Reader::new(&file).map(|reader| reader.header().start_ns);
        start_ns.and_then(|start_ns| Reader::starting_at(file, start_ns.saturating_add(from_ns)))
    };
    Ok(FileReader::Own(Box::new(reader.with_context(|| name.to_string())?)))
}

/// Events between two updates of the progress bar.
const UPDATE_EVENTS: u64 = 1 << 17;

/// Gives every event of a trace of so many bytes to `take`, until it breaks off, behind a progress bar.
pub fn read(
    reader: &mut FileReader,
    bytes: u64,
    mut take: impl FnMut(&Stamped) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let bar = progress::reading(bytes);
    let mut events = 0u64;
    let mut is_whole = true;
    while let Some(stamped) = reader.next_event()? {
        if take(stamped)?.is_break() {
            is_whole = false;
            break;
        }
        events += 1;
        if events % UPDATE_EVENTS == 0 {
            bar.set_position(reader.totals().bytes);
        }
    }
    bar.finish_and_clear();
    let mut totals = reader.totals();
    if !is_whole {
        // Nobody has looked how it ends.
        totals.ending = Ending::Finished;
    }
    warn_of_damage(&totals);
    if let FileReader::Imported(import) = reader {
        import.notes().iter().for_each(|note| say!("spry: {note}"));
    }
    Ok(())
}

/// Says on standard error what of a trace could not be read.
fn warn_of_damage(totals: &Totals) {
    if totals.damaged_bytes > 0 {
        say!("spry: {} bytes of the trace are damaged or cut off and were left out", totals.damaged_bytes);
    }
    if totals.ending == Ending::Cut {
        say!(
            "spry: the trace was not finished (its recorder was killed?); it is read to its last whole block"
        );
    }
    if totals.lost > 0 {
        say!("spry: {} events were lost while recording; see `lost` in the report", totals.lost);
    }
}
