//! The `spry` command: shows what delays the programs in use, and keeps them on time.

// The macros `print!` and `eprint!` panic if a pipe is closed; the functions of `crate::output` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod analyse;
mod analyses;
mod args;
mod bench;
mod ceiling;
mod compare;
mod completions;
mod exit;
mod explain;
mod export;
mod flight;
mod input;
mod lab;
mod latency;
mod limits;
mod load;
mod man;
mod mark;
mod output;
mod progress;
mod record;
mod report;
mod reproduce;
mod reserve;
mod run;
mod scenario;
mod sched;
mod shipped;
mod slack;
mod source;
mod steps;
mod stopping;
mod timespan;
mod top;
mod tune;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = limits::survive_file_size().and_then(|()| match args.command {
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Sched(args) => sched::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Reserve(args) => reserve::run(&args),
        Command::Reservations(args) => reserve::list(&args),
        Command::Ceiling(args) => ceiling::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Slack(args) => slack::run(&args),
        Command::Latency(args) => latency::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Scenario(args) => scenario::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Analyses(args) => analyses::run(&args),
        Command::Mark(args) => mark::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    });
    exit::code(done)
}
