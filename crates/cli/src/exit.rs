//! The exit codes, and the one line in which an error is printed.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Error, anyhow};
use spry_sys::poll;

use crate::limits;
use crate::output::say;

/// An error with an exit code of its own.
#[derive(Debug)]
pub struct CodedError {
    code: u8,
    error: Error,
}

impl CodedError {
    /// Gives `error` the exit code `code`.
    pub fn wrap(code: u8, error: Error) -> Error {
        Error::new(CodedError { code, error })
    }
}

impl std::fmt::Display for CodedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl std::error::Error for CodedError {}

/// The recording failed. This code differs from the statuses that a recorded command usually has.
pub const RECORDING_FAILED: u8 = 125;
/// The time for a command was not reserved.
pub const RESERVING_FAILED: u8 = 125;
/// A knob was not set for a command.
pub const TUNING_FAILED: u8 = 125;
/// The usage is wrong.
pub const WRONG_USAGE: u8 = 2;
/// The command to record was found but could not be started.
pub const CANNOT_START: u8 = 126;
/// The command to record was not found.
pub const NOT_FOUND: u8 = 127;

/// Becomes a program, which keeps what this process was given. Returns the error if it cannot be started.
pub fn become_program(command: &[OsString]) -> Error {
    let [program, arguments @ ..] = command else { return anyhow!("no command") };
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => CANNOT_START,
    };
    CodedError::wrap(code, Error::new(error).context(format!("cannot start {}", program.to_string_lossy())))
}

/// The exit code for the result of a command of Spry. Prints the error, if there is one. If the reader of
/// standard output has closed its pipe, this is not an error, because the reader needs no more output.
pub fn code(done: Result<ExitCode, Error>) -> ExitCode {
    let error = match done {
        Ok(code) => return code,
        Err(error) => error,
    };
    // The daemon's socket and other pipes may break, too. That is an error.
    if is_broken_pipe(&error) && poll::is_unheard(io::stdout().as_fd()) {
        return ExitCode::SUCCESS;
    }
    say!("spry: {}", in_words(&format!("{error:#}")));
    ExitCode::from(error.downcast_ref::<CodedError>().map_or(1, |with| with.code))
}

fn is_broken_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// An error on one line. An error of a limit has a way to raise the limit instead of a request for a report.
pub fn in_words(error: &str) -> String {
    match limits::hint(error) {
        Some(hint) => one_line(&error.replace("; please report this with `uname -a`", "")) + "; " + &hint,
        None => one_line(error),
    }
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
