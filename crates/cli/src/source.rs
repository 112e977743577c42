//! Opens traces of Spry, perf and trace-cmd. The first bytes of a file show its kind.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use spry_import::Import;
use spry_trace::format::MAGIC;
use spry_trace::reader::Ending;
use spry_trace::{Header, Reader, Stamped, Totals};

use crate::input;
use crate::output::say;
use crate::progress;

/// A trace file that is being read.
pub enum FileReader {
    /// A trace that Spry recorded.
    Own(Box<Reader<File>>),
    /// A trace that perf or trace-cmd recorded.
    Imported(Box<Import<File>>),
}

impl FileReader {
    /// The trace's data about the machine on which it was recorded.
    pub fn header(&self) -> &Header {
        match self {
            FileReader::Own(reader) => reader.header(),
            FileReader::Imported(import) => import.header(),
        }
    }

    /// The totals of the part of the trace that was read so far.
    pub fn totals(&self) -> Totals {
        match self {
            FileReader::Own(reader) => reader.totals(),
            FileReader::Imported(import) => import.totals(),
        }
    }

    /// The next event of the trace. The events of all CPUs come in the order of time.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<&Stamped>> {
        Ok(match self {
            FileReader::Own(reader) => reader.next_event()?,
            FileReader::Imported(import) => import.next_event()?,
        })
    }
}

/// Opens a trace. It is read from its start, or from this many nanoseconds after it. Traces of perf and
/// trace-cmd are always read from their start, because tasks get their names there.
///
/// The path `-` is standard input. Also returns how many bytes the trace has.
pub fn open(path: &Path, from_ns: u64) -> Result<(FileReader, u64)> {
    let (name, opened) = (name_of(path), input::open(path));
    let mut file = opened.with_context(|| {
        let hint = if input::is_standard(path) { "" } else { " (record one with `spry record -o FILE`)" };
        format!("cannot open {name}{hint}")
    })?;
    let bytes = file.metadata().map_or(0, |data| data.len());
    let is_directory = file.metadata().is_ok_and(|data| data.is_dir());
    ensure!(!is_directory, "{name} is a directory; give a file (`perf record` without --threads writes one)");
    if Import::recognises(&mut file).with_context(|| format!("cannot read {name}"))? {
        let import = Import::open(file).with_context(|| name.clone())?;
        return Ok((FileReader::Imported(Box::new(import)), bytes));
    }
    if let Some(what) = foreign(&mut file).with_context(|| format!("cannot read {name}"))? {
        bail!("{name} is {what}");
    }
    let reader = if from_ns == 0 {
        Reader::new(file)
    } else {
        let start_ns = Reader::new(&file).map(|reader| reader.header().start_ns);
        start_ns.and_then(|start_ns| Reader::starting_at(file, start_ns.saturating_add(from_ns)))
    };
    Ok((FileReader::Own(Box::new(reader.with_context(|| name.clone())?)), bytes))
}

/// The first bytes of files that are no traces for Spry but may be taken for traces, and their kinds.
const FOREIGN: [(&[u8], &str); 5] = [
    (
        b"# tracer:",
        "text of ftrace (of a latency tracer, for example); `trace-cmd record -e sched` writes what can be read",
    ),
    (b"SIMPLEPERF", "a report of simpleperf; give a perf.data of perf, or a trace.dat of trace-cmd"),
    (b"PAR1", "a table of Parquet; give the trace from which it was exported"),
    (b"\x1f\x8b", "compressed with gzip; unpack it: `zcat FILE | spry report -`"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it: `zstdcat FILE | spry report -`"),
];

/// The kind of a file that begins with the first bytes of another format. Leaves the file at its start.
fn foreign(file: &mut File) -> io::Result<Option<&'static str>> {
    let mut start = Vec::new();
    file.by_ref().take(16).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(FOREIGN.iter().find(|(bytes, _)| start.starts_with(bytes)).map(|&(_, what)| what))
}

/// Whether the file at a path begins as a trace that can be read.
pub fn is_trace(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    File::open(path).is_ok_and(|mut file| {
        Import::recognises(&mut file).unwrap_or(false)
            || file.read_exact(&mut start).is_ok_and(|()| start == MAGIC)
    })
}

/// The name of the trace at a path in messages.
pub fn name_of(path: &Path) -> String {
    if input::is_standard(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// How many events are read between two updates of the progress bar.
const UPDATE_EVENTS: u64 = 1 << 17;

/// Gives every event of a trace to `take`, until `take` breaks off. Shows a progress bar over this
/// number of bytes.
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
        // The rest of the trace was not read. So it is not known how the trace ends, and no damage is
        // reported.
        totals.ending = Ending::Finished;
    }
    warn_of_damage(&totals);
    if let FileReader::Imported(import) = reader {
        import.notes().iter().for_each(|note| say!("spry: {note}"));
    }
    Ok(())
}

/// Prints on standard error which parts of a trace could not be read.
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
