//! The runner: plays one scenario with real threads on this machine and prints its measurements as JSON.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use spry_runner::Options;
use spry_runner::budget::{Giver, WatchParameters, watch};
use spry_runner::timers::{self, TimerLoad};
use spry_runner::work::Work;
use spry_runner::x11::shown;
use spry_scenario::mistake::Mistake;
use spry_scenario::model::{Class, Scenario};

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
    /// Never sleep, and say what CPU time this task is given in periods
    Budget(Budget),
    /// Note when the frames of the program on a display are drawn
    Frames(Frames),
    /// Measure a command beside processes that their interval timers wake
    Timers(TimerArgs),
}

#[derive(Args)]
struct TimerArgs {
    /// How many processes; 0 measures the command alone
    processes: u32,
    /// The period of each process' timer
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    period_us: u64,
    /// Write the values to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The command; its output is not shown
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(Args)]
struct Budget {
    /// The name that the task gives itself
    name: String,
    /// How long it watches
    seconds: f64,
    /// The CPU time in each period
    budget_us: f64,
    /// The length of a period
    period_us: f64,
    /// Ask the kernel for SCHED_DEADLINE
    #[arg(long, conflicts_with = "reserve")]
    deadline: bool,
    /// Ask the scheduler's daemon; with neither, another process must give the budget
    #[arg(long)]
    reserve: bool,
    /// Gaps that are shorter than this count as time that the task ran. Where the lab has several CPUs, each
    /// of them stands still for a turn of the others
    #[arg(long, default_value_t = 700)]
    seen_ns: u64,
    /// How much of the beginning does not count, but for the first period
    #[arg(long, value_name = "MS", default_value_t = 0)]
    settle_ms: u64,
    /// Write the values to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct Frames {
    /// The X display, such as `:99`
    #[arg(long)]
    display: String,
    /// How long it watches
    #[arg(long)]
    seconds: f64,
    /// How long the program may take to show a window
    #[arg(long, default_value_t = 180)]
    patience_s: u64,
    /// Write the times to this file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
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
    /// Write each of the times of a metric with quantiles to this file, ns, as a sorted JSON array
    #[arg(long, value_name = "METRIC=FILE", value_parser = assignment)]
    times: Option<(String, String)>,
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

/// The exit status for a mistake in the scenario. A run that fails ends with 1.
const MISTAKE: u8 = 2;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run(&arguments),
        Command::Check(arguments) => check(&arguments),
        Command::Budget(arguments) => budget(&arguments),
        Command::Frames(arguments) => frames(&arguments),
        Command::Timers(arguments) => timer_cost(arguments),
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

/// Reads the scenario of a file, with some of its variables set.
fn load(path: &Path, sets: &[(String, String)]) -> Result<Scenario, Failure> {
    let file = path.display().to_string();
    let text =
        fs::read_to_string(path).map_err(|error| Mistake::new(&file, 0, format!("cannot be read: {error}")));
    let scenario = text.and_then(|text| Scenario::parse_with(&text, &file, sets));
    scenario.map_err(|mistake| (MISTAKE, mistake.to_string()))
}

fn check(arguments: &Check) -> Result<(), Failure> {
    let scenario = load(&arguments.scenario, &arguments.set)?;
    print(&scenario.check().to_string())
}

fn run(arguments: &Run) -> Result<(), Failure> {
    let scenario = load(&arguments.scenario, &arguments.set)?;
    let options = Options {
        seed: arguments.seed,
        work: match arguments.work {
            WorkBy::Calibration => None,
            WorkBy::Count(work) => Some(work),
        },
        class: arguments.class,
        scratch: arguments.scratch.clone(),
    };
    let outcome = spry_runner::run(&scenario, &options).map_err(|error| (1, error.to_string()))?;
    if let Some((metric, path)) = &arguments.times {
        let times = outcome.times(metric).ok_or_else(|| (1, format!("no times are measured as {metric}")))?;
        write(Path::new(path), format!("{}\n", serde_json::json!(times)))?;
    }
    let text = format!("{}\n", outcome.to_json());
    match &arguments.out {
        None => print(&text),
        Some(path) => write(path, text),
    }
}

fn budget(arguments: &Budget) -> Result<(), Failure> {
    let ns = |value: f64, of: f64| (value * of).round() as u64;
    let watching = WatchParameters {
        name: arguments.name.clone(),
        for_ns: ns(arguments.seconds, 1e9),
        budget_ns: ns(arguments.budget_us, 1e3),
        period_ns: ns(arguments.period_us, 1e3),
        giver: match (arguments.deadline, arguments.reserve) {
            (true, _) => Giver::Deadline,
            (false, true) => Giver::Reservation,
            (false, false) => Giver::Another,
        },
        seen_ns: arguments.seen_ns,
        settle_ns: arguments.settle_ms * 1_000_000,
    };
    let given = watch(&watching).map_err(|error| (1, error.to_string()))?;
    if let Some(path) = &arguments.out {
        write(path, format!("{}\n", serde_json::to_string(&given).expect("numbers can be written")))?;
    }
    print(&(given.line(&watching.name) + "\n"))
}

fn frames(arguments: &Frames) -> Result<(), Failure> {
    let patience = Duration::from_secs(arguments.patience_s);
    let frames = shown::frames(&arguments.display, patience, Duration::from_secs_f64(arguments.seconds))
        .map_err(|error| (1, error.to_string()))?;
    put(arguments.out.as_deref(), format!("{}\n", serde_json::json!({ "frames_ns": frames })))
}

fn timer_cost(arguments: TimerArgs) -> Result<(), Failure> {
    let TimerArgs { processes, period_us, out, command } = arguments;
    let load = TimerLoad { processes, period_ns: period_us.saturating_mul(1_000), command };
    let cost = timers::measure(&load).map_err(|error| (1, error.to_string()))?;
    put(out.as_deref(), format!("{}\n", serde_json::to_string(&cost).expect("numbers can be written")))
}

/// Writes a result to a file, or prints it if there is none.
fn put(path: Option<&Path>, text: String) -> Result<(), Failure> {
    match path {
        None => print(&text),
        Some(path) => write(path, text),
    }
}

fn write(path: &Path, text: String) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| (1, format!("{} cannot be written: {error}", path.display())))
}

fn print(text: &str) -> Result<(), Failure> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| (1, format!("nobody reads the result: {error}")))
}
