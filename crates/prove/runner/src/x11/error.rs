//! The errors of X servers, clients and real programs.

use std::io;
use std::path::PathBuf;

use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};

use crate::RunError;

/// The reason why an operation on a display failed. The message names a remedy, if the user has one.
#[derive(Debug, thiserror::Error)]
pub enum X11Error {
    /// A program is not installed.
    #[error("{program} is not installed: install the package that has it (Debian: {package})")]
    Missing {
        /// The command that was not found.
        program: String,
        /// The distribution package that holds the program.
        package: String,
    },
    /// The X server ended or did not answer.
    #[error("the X server did not start: {log}")]
    Server {
        /// The end of the server's output.
        log: String,
    },
    /// The client cannot connect to the display.
    #[error("no connection to display {display}: {source}")]
    Connect {
        /// The display's name.
        display: String,
        /// The reason why there is no connection.
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
        /// How long the client waited, in seconds.
        waited_s: u64,
    },
    /// A program ran but opened no window.
    #[error(
        "{program} opened no window{sought} within {waited_s} s; windows there are: \
         {windows}; it said: {said}"
    )]
    NoWindow {
        /// The command that was run.
        program: String,
        /// The class or the name of the sought window; may be empty.
        sought: String,
        /// How long the runner waited, in seconds.
        waited_s: u64,
        /// The windows that were on the display.
        windows: String,
        /// The end of the program's output.
        said: String,
    },
    /// A task showed no window to watch or to type into.
    #[error("task {task:?} showed no window within {waited_s} s")]
    NoTarget {
        /// The task's name.
        task: String,
        /// How long the task's watcher waited, in seconds.
        waited_s: u64,
    },
    /// A task's window went away while it was watched.
    #[error("the window of task {task:?} went away while it was watched")]
    TargetGone {
        /// The name of the task to which the window belonged.
        task: String,
    },
    /// A program draws nothing when keys are typed at it.
    #[error("the window of task {task:?} draws nothing when it is typed at ({waited_s} s)")]
    Deaf {
        /// The task's name.
        task: String,
        /// How long the typist waited, in seconds.
        waited_s: u64,
    },
    /// A program ended too early.
    #[error("{program} ended ({status}); it said: {said}")]
    Ended {
        /// The command that was run.
        program: String,
        /// The program's exit status.
        status: String,
        /// The end of the program's output.
        said: String,
    },
    /// A file could not be made or read.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason why it could not be made or read.
        source: io::Error,
    },
    /// The kernel does not let this user make input devices.
    #[error(
        "no input device can be made (/dev/uinput: {0}): it needs root, or the right to write there, \
         and a kernel with uinput and evdev; the lab's is kernel = {{ flavour = \"generic\" }}"
    )]
    Input(io::Error),
    /// The kernel refused a system call.
    #[error("{what}: {source}")]
    Kernel {
        /// The purpose of the call.
        what: &'static str,
        /// The kernel's error.
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
