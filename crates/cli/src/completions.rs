//! The command `spry completions`.

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};

/// Prints the completions for a shell.
pub fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    clap_complete::generate(args.shell, &mut Args::command(), "spry", &mut io::stdout());
    Ok(ExitCode::SUCCESS)
}
