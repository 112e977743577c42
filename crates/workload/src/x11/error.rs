//! What can go wrong with X servers, clients and real programs.

use std::io;
use std::path::PathBuf;

use crate::runner::RunError;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

/// Why something on a display could not be done. Each message says what to do about it where anything can be done.
#[derive(Debug, thiserror::Error)]
pub enum X11Error {
    /// A program is not installed.
    #[error("{program} is not installed: install the package that has it (Debian: {package})")]
    Missing {
        /// The command that was looked for.
        program: String,
        /// The distribution package that has it.
        package: String,
    },
    /// The X server ended or did not answer.
    #[error("the X server did not start: {log}")]
    Server {
        /// The end of what it said.
        log: String,
    },
    /// No connection to the display.
    #[error("no connection to display {display}: {source}")]
    Connect {
        /// The display's name.
        display: String,
        /// Why.
        source: ConnectError,
    },
    /// The connection broke, or the server refused a request.
    #[error("the X server refused or broke off: {0}")]
    Protocol(String),
    /// The server lacks an extension that measuring needs.
    #[error("the X server has no {0} extension")]
    NoExtension(&'static str),
    /// The keyboard map has no key for a character.
    #[error("the X server's keyboard has no key for {0:?}")]
    NoKey(char),
    /// A frame was not finished in time.
    #[error("the X server did not draw a frame within {waited_s} s")]
    Stuck {
        /// How long was waited, in seconds.
        waited_s: u64,
    },
    /// A program ran but opened no window.
    #[error(
        "{program} opened no window{sought} within {waited_s} s; windows there are: {windows}; it said: {said}"
    )]
    NoWindow {
        /// The command.
        program: String,
        /// What the window had to be, or nothing.
        sought: String,
        /// How long was waited, in seconds.
        waited_s: u64,
        /// The windows that there were.
        windows: String,
        /// The end of what the program said.
        said: String,
    },
    /// A task showed no window to watch or to type into.
    #[error("task {task:?} showed no window within {waited_s} s")]
    NoTarget {
        /// The task's name.
        task: String,
        /// How long was waited, in seconds.
        waited_s: u64,
    },
    /// A task's window went away while it was watched.
    #[error("the window of task {task:?} went away while it was watched")]
    TargetGone {
        /// The task's name.
        task: String,
    },
    /// A program draws nothing when it is typed at.
    #[error("the window of task {task:?} draws nothing when it is typed at ({waited_s} s)")]
    Deaf {
        /// The task's name.
        task: String,
        /// How long was waited, in seconds.
        waited_s: u64,
    },
    /// A program ended although it should run on.
    #[error("{program} ended ({status}); it said: {said}")]
    Ended {
        /// The command.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what the program said.
        said: String,
    },
    /// A file could not be made or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No input devices.
    #[error(
        "no input device can be made (/dev/uinput: {0}): it needs root, or the right to write there, and a kernel with \
         uinput and evdev; the lab's is kernel = {{ flavour = \"generic\" }}"
    )]
    Input(io::Error),
    /// The kernel refused something.
    #[error("{what}: {source}")]
    Kernel {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A generated file could not be generated.
    #[error("{0}")]
    Generate(String),
}

impl From<X11Error> for RunError {
    fn from(error: X11Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ConnectionError> for X11Error {
    fn from(error: ConnectionError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<ReplyError> for X11Error {
    fn from(error: ReplyError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<ReplyOrIdError> for X11Error {
    fn from(error: ReplyOrIdError) -> Self {
        Self::Protocol(error.to_string())
    }
}
