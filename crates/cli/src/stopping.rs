//! Handles Ctrl-C and similar signals: they ask long work to stop in an orderly way.

use std::fs;
use std::thread;

use anyhow::{Context, Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use spry_experiment::Stop;

use crate::exit::CodedError;

/// The exit status that a shell reports for a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// Makes a request to stop that is set by the signals with which users and the system end programs.
pub fn on_signals() -> Result<Stop> {
    let stop = Stop::new();
    let mut ends = vec![SIGINT, SIGTERM];
    // Under nohup the work outlives its terminal.
    if !is_ignored(SIGHUP) {
        ends.push(SIGHUP);
    }
    let mut signals = Signals::new(ends).context("cannot listen to signals")?;
    let request = stop.clone();
    thread::spawn(move || {
        for _ in signals.forever() {
            request.request();
        }
    });
    Ok(stop)
}

/// Whether the process that started this one made it ignore a signal, as nohup does.
pub fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

/// Gives an error the exit code of an interruption, if the work was interrupted.
pub fn told(error: Error, stop: &Stop) -> Error {
    if stop.is_requested() { CodedError::wrap(INTERRUPTED, error) } else { error }
}

#[cfg(test)]
mod tests {
    use signal_hook::consts::{SIGPIPE, SIGUSR1};

    use super::*;

    #[test]
    fn ignored_signals_are_those_that_the_kernel_lists() {
        // Every program of Rust ignores SIGPIPE from its start.
        assert!(is_ignored(SIGPIPE));
        assert!(!is_ignored(SIGUSR1));
    }
}
