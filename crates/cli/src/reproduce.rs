//! `spry reproduce`: the papers' figures again, from traces of the lab.

mod cells;
mod files;
mod latency;
mod latency_guest;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::{Context, Error, Result, bail};
use spry_lab::scheduler::peers_directory;
use spry_lab::{Cache, Stop};
use spry_reproduce::study::Study;
use spry_reproduce::{application, claims, interactive, text};

use crate::args::{InteractiveArgs, ReproduceArgs, ReproduceCommand};
use crate::exit::WithCode;
use crate::output::{self, say};
use crate::scenario::MISTAKE;
use crate::stopping;
use cells::{Measuring, Tally};
use files::{Directory, Made};

/// Does what is asked.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    match &args.command {
        ReproduceCommand::List => list()?,
        ReproduceCommand::Interactive(args) => return interactive(args),
        ReproduceCommand::SchedulerLatency(args) => return latency::run(args),
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<()> {
    let mut out = String::from(
        "interactive   Etsion's thesis on scheduling of interactive processes, chapters 6 and 9: the stock scheduler beside Spry\n",
    );
    for topic in interactive::all(&Study::default()) {
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
    for kernel in &spry_reproduce::latency::KERNELS {
        let stands = kernel.stands_for.map(|name| format!("in the place of the article's {name}"));
        out += &format!("    {:<18} {}\n", kernel.key, stands.unwrap_or_else(|| "today's".to_owned()));
    }
    for load in &spry_reproduce::latency::LOADS {
        out += &format!("    {:<18} {}\n", load.key, load.stands_for);
    }
    output::print(&out)
}

fn interactive(args: &InteractiveArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    check_schedulers(args)?;
    let directory = Directory::open(&args.output, "interactive")?;
    let mut measuring = Measuring::new(args, &directory, &stop);
    for application in args.applications() {
        if stop.is_requested() {
            break;
        }
        measuring.measure(application)?;
    }
    let tally = measuring.finish()?;
    told(args, &directory, &tally, &stop)
}

/// Mistakes show before anything runs.
fn check_schedulers(args: &InteractiveArgs) -> Result<()> {
    let peers = peers_directory(&Cache::default_root());
    for (at, scheduler) in args.scheduler.iter().enumerate() {
        if args.scheduler[..at].contains(scheduler) {
            let twice = format!("--scheduler {scheduler} is named twice");
            return Err(WithCode::wrap(MISTAKE, Error::msg(twice)));
        }
        scheduler.setup(&peers).with_context(|| format!("--scheduler {scheduler}"))?;
    }
    Ok(())
}

/// Writes the figures of what there is, and says what there is not.
fn told(args: &InteractiveArgs, directory: &Directory, tally: &Tally, stop: &Stop) -> Result<ExitCode> {
    for (cell, error) in &tally.failures {
        say!("spry: {cell}: {error}");
    }
    let interrupted = stop.is_requested();
    if tally.study.cells.is_empty() {
        if interrupted {
            say!("spry: interrupted before any cell was done");
            return Ok(ExitCode::from(stopping::INTERRUPTED));
        }
        bail!("no cell has figures");
    }
    let made = Made {
        study: &tally.study,
        topics: interactive::topics(&tally.study),
        verdicts: claims::verdicts(&tally.study),
        tally,
        args,
    };
    let results = directory.write(&made)?;
    if args.json {
        output::print(&results)?;
    } else {
        output::print(&text::summary(&tally.study, &made.verdicts))?;
    }
    let place = args.output.display();
    let (done, all) = (tally.study.cells.len(), tally.planned);
    if interrupted {
        say!(
            "spry: interrupted after {done} of {all} cells, which are kept in {place}; the same command goes on with the others"
        );
        return Ok(ExitCode::from(stopping::INTERRUPTED));
    }
    if io::stderr().is_terminal() || !args.playing.quiet {
        say!("spry: {done} of {all} cells; open {place}/index.html");
    }
    Ok(if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
