//! Ctrl-C and its kin: long work is asked to stop in order.

use std::thread;

use anyhow::{Context, Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use spry_lab::Stop;

use crate::exit::WithCode;

/// What a shell says of a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// A request to stop that the signals of people and of the system make.
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

/// An error with the exit code of an interruption, if it is one.
pub fn told(error: Error, stop: &Stop) -> Error {
    if stop.is_requested() { WithCode::wrap(INTERRUPTED, error) } else { error }
}
