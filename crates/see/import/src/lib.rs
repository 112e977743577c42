//! Converts recordings of perf and trace-cmd to Spry's events: a file in, a header and a stream of events in
//! order of time out.
//!
//! ```no_run
//! # fn main() -> Result<(), spry_import::ImportError> {
//! let file = std::fs::File::open("perf.data").expect("there is one");
//! let mut import = spry_import::Import::open(file)?;
//! println!("{} CPUs", import.header().cpus);
//! while let Some(stamped) = import.next_event()? {
//!     println!("{stamped:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! perf.data is read as described in `linux/tools/perf/Documentation/perf.data-file-format.txt` and
//! `perf_event_open(2)`, trace.dat as in `trace-cmd.dat.v6(5)` and `trace-cmd.dat.v7(5)`. The places of a
//! tracepoint's fields are always taken from the file. Forged and damaged files are read safely. Memory for
//! perf.data: at most 256 MiB of waiting records, usually two of its rounds. For trace.dat: a few pages or
//! one compressed chunk (at most 16 MiB) a CPU, and at most 512 MiB for all CPUs. In addition: descriptions
//! of at most 64 MiB each, and 40 bytes a task.

mod catalogue;
mod convert;
mod error;
mod format;
mod import;
mod input;
mod meta;
mod names;
mod perf;
mod states;
mod stays;
mod timers;
mod tracecmd;

pub use error::ImportError;
pub use import::{Import, Note};
