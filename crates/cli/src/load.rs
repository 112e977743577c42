//! The command `spry load`: runs loads for measurements until the time is up or the user interrupts.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use spry_experiment::Stop;
use spry_lab::{Archive, Cache, Suite};
use spry_load::{Load, LoadState, Options, RunningLoads, SOURCE_PACKAGE, State, Summary};

use crate::args::{LoadArgs, LoadBounds, LoadCommand, LoadListArgs};
use crate::output::{self, say};
use crate::progress;
use crate::steps::Steps;
use crate::stopping;

/// How often the command checks the loads and shows the progress.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs loads, lists them, or removes the remains of loads that were killed.
pub fn run(args: &LoadArgs) -> Result<ExitCode> {
    match &args.command {
        Some(LoadCommand::List(args)) => list(args),
        Some(LoadCommand::Clean) => clean(),
        None => load(args),
    }
}

fn load(args: &LoadArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let loads = selected(&args.names)?;
    let options = options(&args.bounds, &loads, &stop).map_err(|error| stopping::told(error, &stop))?;
    let mut running = spry_load::start(&loads, &options)?;
    let shown = !args.quiet && io::stderr().is_terminal();
    let bar = shown.then(|| progress::loading(args.duration.map(|span| span.duration())));
    let watched = watch(args, &mut running, &stop, bar.as_ref());
    bar.inspect(ProgressBar::finish_and_clear);
    let directory = running.directory().to_owned();
    let stopped = running.stop();
    let ran = watched?;
    let summary = stopped?;
    if args.json {
        let mut line = serde_json::to_value(&summary)?;
        line["running_ns"] = Value::from(u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX));
        line["directory"] = json!(directory);
        line["interrupted"] = Value::from(stop.is_requested());
        output::print(&format!("{line}\n"))?;
    }
    if !args.quiet {
        say!("{}", in_words(&summary, ran));
    }
    Ok(ExitCode::SUCCESS)
}

/// The loads with these names; each load once.
pub fn selected(names: &[String]) -> Result<Vec<&'static Load>> {
    let mut loads: Vec<&'static Load> = Vec::new();
    for name in names {
        let more = if name == "all" { Load::all_here() } else { vec![Load::by_name(name)?] };
        for load in more {
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
    }
    Ok(loads)
}

/// The options for these loads. If a load compiles a source that is not there, the source is fetched.
pub fn options(bounds: &LoadBounds, loads: &[&'static Load], stop: &Stop) -> Result<Options> {
    let mut options = bounds.options(Cache::default_root());
    // A load that cannot run on this machine needs no source.
    let wanted = |load: &&&'static Load| load.wants_source() && load.lack().is_none();
    if options.source.is_none() && loads.iter().any(|load| wanted(&load)) {
        options.source = Some(fetch_source(stop).context(format!(
            "the source of {SOURCE_PACKAGE}, which is compiled, cannot be fetched: name another with --source"
        ))?);
    }
    Ok(options)
}

fn fetch_source(stop: &Stop) -> Result<PathBuf> {
    let cache = Cache::open(&Cache::default_root())?;
    let steps = Steps::new();
    Ok(Archive::open(&cache, None)?.source_package(
        Suite::Stable,
        SOURCE_PACKAGE,
        &|event: spry_lab::Event<'_>| steps.show(event),
        stop,
    )?)
}

/// Waits until the time is up or the user interrupts. Returns how long all loads ran.
fn watch(
    args: &LoadArgs,
    running: &mut RunningLoads,
    stop: &Stop,
    bar: Option<&ProgressBar>,
) -> Result<Duration> {
    let mut began = None;
    loop {
        running.check()?;
        if began.is_none() && running.is_running() {
            began = Some(Instant::now());
        }
        let elapsed = began.map_or(Duration::ZERO, |began: Instant| began.elapsed());
        bar.inspect(|bar| show(bar, elapsed, running.states()));
        let is_over = args.duration.is_some_and(|span| began.is_some() && elapsed >= span.duration());
        if is_over || stop.is_requested() {
            return Ok(elapsed);
        }
        let left = args.duration.map_or(LOOK_EVERY, |span| span.duration().saturating_sub(elapsed));
        thread::sleep(LOOK_EVERY.min(left.max(Duration::from_millis(1))));
    }
}

fn show(bar: &ProgressBar, elapsed: Duration, states: &[LoadState]) {
    let names = |wanted: &State| {
        let names = states.iter().filter(|load| load.state == *wanted).map(|load| load.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let (running, preparing) = (names(&State::Running), names(&State::Preparing));
    let preparing = if preparing.is_empty() { preparing } else { format!("; preparing: {preparing}") };
    bar.set_position(elapsed.as_millis() as u64);
    bar.set_message(format!("{:.0} s, running: {running}{preparing}", elapsed.as_secs_f64()));
}

fn in_words(summary: &Summary, ran: Duration) -> String {
    let loads = summary.loads.iter().map(|load| match load.operations {
        Some(operations) => format!("{} ({operations} {})", load.state.name, load.counts),
        None => load.state.name.to_owned(),
    });
    format!(
        "spry: {:.1} s of {}; at most {} MiB of memory and {} MiB of disk space; nothing of them is left",
        ran.as_secs_f64(),
        loads.collect::<Vec<_>>().join(", "),
        summary.memory_bytes_max >> 20,
        summary.disk_bytes_max >> 20
    )
}

fn list(args: &LoadListArgs) -> Result<ExitCode> {
    let text = if args.json {
        let entry = |load: &Load| {
            json!({
                "name": load.name(),
                "stands_for": load.stands_for(),
                "how": load.how(),
                "needs": load.needs(),
                "lack": load.lack(),
            })
        };
        let list: Vec<Value> = Load::all().iter().map(entry).collect();
        serde_json::to_string_pretty(&list)? + "\n"
    } else {
        Load::all().iter().map(entry_in_words).collect()
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn entry_in_words(load: &Load) -> String {
    let here = load.lack().unwrap_or_else(|| "yes".to_owned());
    let lines = [
        ("", load.stands_for()),
        ("how: ", load.how()),
        ("needs: ", &load.needs().join(", ")),
        ("runs here: ", &here),
    ];
    let lines = lines.iter().enumerate().map(|(at, (head, text))| {
        let name = if at == 0 { load.name() } else { "" };
        format!("{name:<13} {head}{text}\n")
    });
    lines.collect()
}

fn clean() -> Result<ExitCode> {
    let cleaned = spry_load::clean(&Cache::default_root())?;
    let mut removed = String::new();
    for directory in &cleaned.removed {
        removed += &format!("removed {}\n", directory.display());
    }
    let running = match cleaned.running {
        0 => String::new(),
        count => format!("{count} under way\n"),
    };
    let nothing = if removed.is_empty() { "nothing was left\n" } else { "" };
    output::print(&format!("{removed}{nothing}{running}"))?;
    Ok(ExitCode::SUCCESS)
}
