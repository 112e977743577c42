//! The command `spry completions`.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::output;

/// Prints the completions for a shell.
pub fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    // Into memory first: where the output is closed, `generate` would panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "spry", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
