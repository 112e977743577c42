//! The errors of reading a file, each with advice.

use std::io;

/// The reason why a file of perf's or trace-cmd's cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The source itself failed.
    #[error("cannot read the file")]
    Io(#[source] io::Error),
    /// The first bytes are neither perf's nor trace-cmd's.
    #[error("neither a perf.data nor a trace.dat")]
    Unknown,
    /// The file is cut off or damaged before the first event.
    #[error("the file's {0} is cut off or damaged; nothing can be read without it")]
    Damaged(&'static str),
    /// Formats are missing: perf was killed, or recorded no tracepoint.
    #[error(
        "the file does not say what its tracepoints look like: it has none, or perf was killed before its \
         end (end it with Ctrl-C, or record through a pipe: `perf record -o - ... > perf.data`)"
    )]
    NoFormats,
    /// The file has no switches, without which no analysis is possible.
    #[error(
        "the file has no sched:sched_switch events; record them: `perf sched record`, \
         `perf record -a -e 'sched:*'` or `trace-cmd record -e sched`"
    )]
    NoSwitches,
    /// No event was recorded, or none in the part of the file that is read.
    #[error("the file holds no events (`trace-cmd restore` gathers what a killed trace-cmd left)")]
    NoEvents,
    /// The file has only the events of one command.
    #[error(
        "only one command's own events were recorded, so it is not known what else had the CPU; \
         record the whole machine: `perf record -a -e 'sched:*' -- COMMAND`"
    )]
    OneCommand,
    /// The time stamps do not count nanoseconds.
    #[error(
        "the time stamps are of the clock `{0}`, which does not count nanoseconds; record with `-C mono`"
    )]
    Clock(String),
    /// The buffers of the file have different clocks. Times of two clocks cannot be compared.
    #[error(
        "the file's buffers have different clocks, `{0}` and `{1}`; record all with one: `-C mono` before the \
         first `-B`, and after each"
    )]
    Clocks(String, String),
    /// The file has the text of a latency tracer instead of records.
    #[error(
        "the file has the text of a latency tracer (such as wakeup or irqsoff) and no records; record events: \
         `trace-cmd record -e sched`"
    )]
    LatencyTracer,
    /// The file is simpleperf's, and parts that perf would have written are missing or have another form.
    #[error(
        "the file is of simpleperf (Android), which differs from perf's: {0}; record with perf or trace-cmd there"
    )]
    Simpleperf(Box<ImportError>),
    /// The file has a version of trace-cmd's format that is not known.
    #[error("version {0} of trace-cmd's format is not known; versions 6 and 7 are read")]
    Version(String),
    /// The file is compressed in a way that is not known.
    #[error(
        "the file is compressed with `{0}`; zstd and zlib are read (`trace-cmd convert --compression none`)"
    )]
    Compression(String),
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> ImportError {
        ImportError::Io(error)
    }
}

/// The error of reading a part of the file: if bytes of the part are missing or senseless, the file is
/// damaged; any other error is a failure of the source.
pub(crate) fn in_part(part: &'static str) -> impl Fn(io::Error) -> ImportError {
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            ImportError::Damaged(part)
        }
        _ => ImportError::Io(error),
    }
}
