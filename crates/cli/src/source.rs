//! Opening traces.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use spry_trace::Reader;

/// A trace on disk.
pub type FileReader = Reader<File>;

/// Opens a trace to be read from its start, or from some nanoseconds after it.
pub fn open(path: &Path, from_ns: u64) -> Result<FileReader> {
    let name = path.display();
    let file = File::open(path)
        .with_context(|| format!("cannot open {name} (record one with `spry record -o {name}`)"))?;
    let reader = if from_ns == 0 {
        Reader::new(file)
    } else {
        let start_ns = Reader::new(&file).map(|reader| reader.header().start_ns);
        start_ns.and_then(|start_ns| Reader::starting_at(file, start_ns.saturating_add(from_ns)))
    };
    reader.with_context(|| name.to_string())
}
