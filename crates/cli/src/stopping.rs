//! Handles Ctrl-C and similar signals: they ask long work to stop in an orderly way.

use std::thread;

use anyhow::{Context, Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use spry_experiment::Stop;

use crate::exit::WithCode;

/// The exit status that a shell reports for a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// Makes a request to stop that is set by the signals with which users and the system end programs.
pub fn on_signals() -> Result<Stop> {
    let stop = Stop::new();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to signals")?;
    let request = stop.clone();
    thread::spawn(move || {
        for _ in signals.forever() {
            request.request();
        }
    });
    Ok(stop)
}

/// Gives an error the exit code of an interruption, if the work was interrupted.
pub fn told(error: Error, stop: &Stop) -> Error {
    if stop.is_requested() { WithCode::wrap(INTERRUPTED, error) } else { error }
}
