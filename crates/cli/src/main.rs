//! The `spry` command: what delays what you are using, and why.

mod analyses;
mod args;
mod completions;
mod exit;
mod export;
mod mark;
mod progress;
mod record;
mod report;
mod source;
mod timespan;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Analyses(args) => analyses::run(&args),
        Command::Mark(args) => mark::run(&args),
        Command::Completions(args) => completions::run(&args),
    };
    exit::code(done)
}
