//! The command `spry reproduce`: makes the papers' figures again, from traces of the lab.

mod boots;
mod interactive;
mod meter;

use std::process::ExitCode;

use anyhow::{Error, Result};
use spry_reproduce::interactive as figures;
use spry_reproduce::study::Study;
use spry_reproduce::{application, clock_resolution, firm, latency, time_sensitive};

use crate::args::{ReproduceArgs, ReproduceCommand};
use crate::exit::CodedError;
use crate::output::{self, say};
use crate::scenario::MISTAKE;
use crate::stopping;

/// Runs a subcommand of `spry reproduce`.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    match &args.command {
        ReproduceCommand::List => list()?,
        ReproduceCommand::Interactive(args) => return interactive::run(args),
        ReproduceCommand::SchedulerLatency(args) => {
            return boots::run::<latency::Laboratory>(&args.request(), &args.output, &args.how);
        }
        ReproduceCommand::TimeSensitive(args) => {
            if let Some(system) = args.foreign_system() {
                let of = if args.firm { "not of figures 6 to 8" } else { "of figures 6 to 8, add --firm" };
                let words =
                    format!("the system {system} is {of}; `spry reproduce list` says what each is of");
                return Err(CodedError::wrap(MISTAKE, Error::msg(words)));
            }
            if args.firm {
                return boots::run::<firm::Laboratory>(&args.firm_request(), &args.output(), &args.how);
            }
            return boots::run::<time_sensitive::Laboratory>(&args.request(), &args.output(), &args.how);
        }
        ReproduceCommand::ClockResolution(args) => {
            return boots::run::<clock_resolution::Laboratory>(&args.request(), &args.output, &args.how);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<()> {
    let mut out = String::from(
        "interactive   Etsion's thesis on scheduling of interactive processes, chapters 6 and 9: \
         the stock scheduler beside Spry\n",
    );
    for topic in figures::all(&Study::default()) {
        for (number, caption) in &topic.figures {
            out += &format!("  {number}  {caption}\n");
        }
    }
    out += "  its applications, and what stands for them in the lab:\n";
    for application in application::ALL {
        out += &format!("    {:<11} {:<13} {}\n", application.key, application.name, application.stands);
    }
    out +=
        "scheduler-latency   Williams' article on scheduler latency: kernels beside loads, ranked at 99 %\n";
    for kernel in &latency::KERNELS {
        let stands = kernel.stands_for.map(|name| format!("in the place of the article's {name}"));
        out += &format!("    {:<18} {}\n", kernel.key, stands.unwrap_or_else(|| "today's".to_owned()));
    }
    for load in &latency::LOADS {
        out += &format!("    {:<18} {}\n", load.key, load.stands_for);
    }
    out += "time-sensitive   Time-Sensitive Linux: budgets in periods, and a film's sound and picture\n";
    out += "  table 1  deviation of proportion and period\n";
    for (number, caption) in time_sensitive::captions() {
        out += &format!("  {number}  {caption}\n");
    }
    for system in &time_sensitive::SYSTEMS {
        out += &format!("    {:<18} {}\n", system.key, system.about);
    }
    out += &format!("  with --firm, what firm timers cost povray (kernel {})\n", firm::KERNEL);
    for (number, caption) in firm::captions() {
        out += &format!("  {number}  {caption}\n");
    }
    for system in &firm::SYSTEMS {
        out += &format!("    {:<18} {}\n", system.key, system.about);
    }
    out += "clock-resolution   Effects of clock resolution, section 7: alarms at 100 and at 20,000 Hz\n";
    out += "  table 6   tails of the latencies of alarm signals\n";
    out += "  figure 7  latencies of signals to processes that always compute\n";
    out += "  figure 8  what 8 processes sort, on an older and on a newer processor\n";
    for system in &clock_resolution::SYSTEMS {
        out += &format!("    {:<18} {} (kernel {})\n", system.key, system.about, system.kernel);
    }
    for case in &clock_resolution::CASES {
        out += &format!("    {:<18} {}\n", case.key(), case.name());
    }
    out += &format!("    {:<18} sorting, 8 processes\n", clock_resolution::SORTS);
    output::print(&out)
}

/// Gives an error of a study its exit code.
fn coded(error: spry_reproduce::Error) -> Error {
    match error {
        spry_reproduce::Error::Plan(_) => CodedError::wrap(MISTAKE, Error::new(error)),
        error => Error::new(error),
    }
}

/// Prints that a study was interrupted, and where its cells are.
fn interrupted(done: usize, all: usize, place: &std::path::Path) -> ExitCode {
    say!(
        "spry: interrupted after {done} of {all} cells, which are kept in {}; the same command goes \
         on with the others",
        place.display()
    );
    ExitCode::from(stopping::INTERRUPTED)
}
