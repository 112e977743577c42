//! `spry-sched`, the daemon that lets programs in use run on time.

use std::process::ExitCode;

use clap::Parser;
use spry_control::{DaemonArgs, DaemonCommand};
use spry_scheduler::daemon;

fn main() -> ExitCode {
    let DaemonCommand::Run(args) = DaemonArgs::parse().command;
    match daemon::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            daemon::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
