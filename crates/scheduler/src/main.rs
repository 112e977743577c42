//! `spry-sched`, the daemon that keeps on time what the user is using.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use spry_control::RunArgs;
use spry_scheduler::daemon;

const EXAMPLES: &str = "\
Examples:
  spry-sched run --observe-only     the safe first minute: see `spry top`, change nothing
  spry-sched run                    act; Ctrl-C gives everything back to the kernel's scheduler
  spry sched status                 how it is, and who is in use

Exit codes: 0 ended in order, 1 failed (one line on standard error says why and what to do), 2 wrong usage.";

/// Keep on time what the user is using.
#[derive(Parser)]
#[command(name = "spry-sched", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run in the foreground until Ctrl-C, SIGTERM or `spry sched stop`; needs root.
    Run(RunArgs),
}

fn main() -> ExitCode {
    let Command::Run(args) = Args::parse().command;
    match daemon::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            daemon::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
