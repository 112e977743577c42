//! The errors of studies and of their cells.

use std::io;
use std::path::PathBuf;

use spry_experiment::scheduler::SchedulerError;
use spry_experiment::{PlanError, programs};
use spry_lab::LabError;

/// The reason why a study cannot go on, or why one of its cells has no values.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or a directory of the study cannot be read or made.
    #[error("{}: {error}", path.display())]
    File {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file of the study cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The directory has other contents than this study's.
    #[error(
        "{} is there and holds no figures of spry reproduce {what}: name another directory with -o",
        path.display()
    )]
    Taken {
        /// The path of the directory.
        path: PathBuf,
        /// The study that was to be written there.
        what: String,
    },
    /// A scenario of the study cannot be found; the text has the reason.
    #[error("{0}")]
    Scenario(String),
    /// A scenario of the study does not take the study's values.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A scheduler is not available.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// The lab cannot prepare a machine, or a job failed in it.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// One of Spry's own programs is not where it belongs.
    #[error(transparent)]
    Program(#[from] programs::MissingProgram),
    /// The values of a cell cannot be written or read back.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The values of a cell have disappeared after they were written.
    #[error("a cell's figures are gone")]
    Gone,
    /// The load of a cell is not a number of stressers.
    #[error("a load is no number")]
    Load,
    /// The runner's report does not have the measured time.
    #[error("the runner does not say when it measured")]
    NoTime,
    /// The file of a cell's trace cannot be opened or removed.
    #[error(transparent)]
    TraceFile(io::Error),
    /// A cell's trace cannot be read.
    #[error(transparent)]
    Trace(#[from] spry_trace::ReadError),
    /// A cell's trace cannot be analysed.
    #[error(transparent)]
    Analysis(#[from] spry_analysis::Error),
    /// A cell's trace is damaged.
    #[error("its trace is damaged")]
    Damaged,
    /// A cell's trace has no task of its application.
    #[error("no task of {0} is in its trace")]
    NoTask(&'static str),
    /// A measurement of latencies cannot be kept.
    #[error(transparent)]
    Latency(#[from] spry_latency::Error),
    /// A guest did not complete its measurement; the text has the reason.
    #[error("{0}")]
    Guest(String),
}

impl Error {
    /// The error and all its causes, in one text.
    pub fn in_full(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }
}
