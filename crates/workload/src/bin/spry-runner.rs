//! The runner: plays one scenario with real threads on this machine and prints what it measured as JSON.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use spry_workload::model::{Class, Scenario};
use spry_workload::runner::work::Work;
use spry_workload::runner::{self, Options};

#[derive(Parser)]
#[command(name = "spry-runner", version, about = "Plays a scenario with real threads on this machine")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play a scenario and print what was measured as one JSON object
    Run(Run),
    /// Read a scenario and say what it is, or what is wrong with it
    Check(Check),
}

#[derive(Args)]
struct Check {
    /// The scenario: TOML, or rt-app's JSON
    scenario: PathBuf,
    /// Set a variable of the scenario
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

#[derive(Args)]
struct Run {
    /// The scenario: TOML, or rt-app's JSON
    #[arg(long)]
    scenario: PathBuf,
    /// Set a variable of the scenario
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// Seeds everything that happens by chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How CPU time becomes work: calibrated, or counted in instructions of 2 to the power SHIFT ns
    #[arg(long, value_name = "calibrated|instructions[:SHIFT]", default_value = "calibrated", value_parser = work)]
    work: WorkBy,
    /// The class of tasks that name none
    #[arg(long, value_name = "fifo:PRIORITY|rr:PRIORITY", value_parser = class)]
    class: Option<Class>,
    /// Make the run's own directory below this one, rather than where temporary files are
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Write the result to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// How CPU time becomes work.
#[derive(Clone, Copy)]
enum WorkBy {
    Calibration,
    Count(Work),
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn work(text: &str) -> Result<WorkBy, String> {
    let shift = match text.split_once(':') {
        None if text == "calibrated" => return Ok(WorkBy::Calibration),
        None if text == "instructions" => "0",
        Some(("instructions", shift)) => shift,
        _ => return Err("it is calibrated or instructions[:SHIFT]".into()),
    };
    match shift.parse() {
        Ok(shift @ 0..=10) => Ok(WorkBy::Count(Work::Instructions { shift })),
        _ => Err("SHIFT is a number from 0 to 10".into()),
    }
}

fn class(text: &str) -> Result<Class, String> {
    let (name, priority) = text.split_once(':').unwrap_or((text, "1"));
    let priority = priority.parse::<u32>().ok().filter(|priority| (1..=98).contains(priority));
    match (name, priority) {
        ("fifo", Some(priority)) => Ok(Class::Fifo(priority)),
        ("rr", Some(priority)) => Ok(Class::RoundRobin(priority)),
        _ => Err("it is fifo:PRIORITY or rr:PRIORITY, with a priority from 1 to 98".into()),
    }
}

/// A mistake in the scenario, as other programs tell it from a failure.
const MISTAKE: u8 = 2;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::Check(arguments) => check(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, text)) => {
            eprintln!("spry-runner: {text}");
            ExitCode::from(code)
        }
    }
}

type Failure = (u8, String);

fn check(arguments: &Check) -> Result<(), Failure> {
    let scenario = Scenario::load_with(&arguments.scenario, &arguments.set);
    let scenario = scenario.map_err(|mistake| (MISTAKE, mistake.to_string()))?;
    print(&scenario.check().to_string())
}

fn run(arguments: &Run) -> Result<(), Failure> {
    let scenario = Scenario::load_with(&arguments.scenario, &arguments.set);
    let scenario = scenario.map_err(|mistake| (MISTAKE, mistake.to_string()))?;
    let options = Options {
        seed: arguments.seed,
        work: match arguments.work {
            WorkBy::Calibration => None,
            WorkBy::Count(work) => Some(work),
        },
        class: arguments.class,
        scratch: arguments.scratch.clone(),
    };
    let outcome = runner::run(&scenario, &options).map_err(|error| (1, error.to_string()))?;
    let text = format!("{}\n", outcome.to_json());
    match &arguments.out {
        None => print(&text),
        Some(path) => std::fs::write(path, text)
            .map_err(|error| (1, format!("{} cannot be written: {error}", path.display()))),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| (1, format!("nobody reads the result: {error}")))
}
