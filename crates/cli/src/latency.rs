//! The command `spry latency`.

mod split;

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use spry_experiment::Stop;
use spry_latency::culprits::folded;
use spry_latency::{
    Config, End, LOAD_ENDED, Limit, MeasuredMachine, Progress, Results, Sampling, Source, clock_setting,
    histfile, html, json, text,
};
use spry_load::RunningLoads;
use spry_page::words::{count, duration};
use spry_recorder::RunningKernel;
use spry_sys::clock;

use self::split::Splitter;
use crate::args::{LatencyArgs, LoadBounds};
use crate::load;
use crate::output::{self, say};
use crate::progress;
use crate::stopping;
use crate::timespan::Timespan;

/// How often the command looks at the measurement. It does so seldom, because a look takes CPU time from the
/// measured threads.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(500);
/// How long the loads may take to get ready. Some of them write files first.
const PREPARATION_MAX: Duration = Duration::from_secs(300);
/// The time that the maximum of the latest samples covers.
const RECENT: Duration = Duration::from_secs(1);

/// Measures until the time is up, the samples are taken, or the user interrupts. Prints the results and keeps
/// them in a file.
pub fn run(args: &LatencyArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let mut loads = beside(&args.load, &stop)?;
    let threshold = args.threshold.map(Timespan::duration);
    let mut splitting =
        (args.split || threshold.is_some()).then(|| Splitter::start(threshold)).transpose()?;
    let config = Config {
        source: Source::from(args.source),
        rate_hz: args.rate,
        placement: args.cpus.clone().unwrap_or_default(),
        priority: args.priority,
        limit: args.limit(),
        watcher: splitting.as_ref().map(Splitter::watcher),
    };
    let sampling = Sampling::start(&config)?;
    let mut results = begun(&config, &sampling);
    results.load = loads.iter().flat_map(RunningLoads::states).map(|load| load.name.to_owned()).collect();
    results.lacks.extend(splitting.iter().flat_map(Splitter::lacks));
    results.threshold_ns = args.threshold.map(Timespan::ns);
    for lack in &results.lacks {
        say!("spry: {lack}");
    }
    look_after(args, &config, &sampling, &mut results, splitting.as_mut(), &stop);
    // The loads must have run until this moment. This is checked before they are stopped.
    let loaded = loads.as_mut().map_or(Ok(()), RunningLoads::check);
    results.elapsed_ns = elapsed_ns(&sampling);
    // A measurement that ends while it warms up has no time yet.
    if let Some(elapsed_ns) = clock::monotonic_ns().checked_sub(results.began_ns) {
        results.lacks.extend(clock_setting(results.began_unix_ns, clock::unix_ns(), elapsed_ns));
    }
    sampling.stop();
    results.threads = sampling.finish()?;
    if let Err(error) = loaded {
        results.lacks.push(format!("{LOAD_ENDED}: {error}"));
    }
    drop(loads);
    if let Some(splitting) = &mut splitting {
        splitting.look();
        results.culprits = splitting.culprits();
        results.lacks.extend(splitting.lost());
    }
    let interrupted = stop.is_requested() && config.limit != Limit::Forever;
    results.end = if interrupted { End::Interrupted } else { End::Complete };
    tell(args, &results)?;
    Ok(if interrupted { ExitCode::from(stopping::INTERRUPTED) } else { ExitCode::SUCCESS })
}

/// Starts the loads and waits until all of them put load on the machine.
fn beside(names: &[String], stop: &Stop) -> Result<Option<RunningLoads>> {
    if names.is_empty() {
        return Ok(None);
    }
    let loads = load::selected(names)?;
    let options =
        load::options(&LoadBounds::default(), &loads, stop).map_err(|error| stopping::told(error, stop))?;
    let mut running = spry_load::start(&loads, &options)?;
    let until = Instant::now() + PREPARATION_MAX;
    while !running.wait_until_running(LOOK_EVERY)? && !stop.is_requested() {
        ensure!(Instant::now() < until, "the loads are not ready after {} s", PREPARATION_MAX.as_secs());
    }
    running.check()?;
    Ok(Some(running))
}

/// The results of a measurement that has just begun: only the values that are known at the start.
fn begun(config: &Config, sampling: &Sampling) -> Results {
    let kernel = RunningKernel::ask();
    let machine = MeasuredMachine {
        kernel: kernel.release,
        arch: kernel.arch,
        preemption: kernel.preemption,
        scheduler: kernel.scheduler,
        boot_parameters: kernel.boot_parameters,
    };
    let mut results = Results::new(machine, config.source, config.rate_hz, config.priority);
    results.command = env::args().collect();
    results.lacks = sampling.lacks().iter().map(ToString::to_string).collect();
    results.began_ns = sampling.began_ns();
    results.began_unix_ns = sampling.began_unix_ns();
    results
}

fn elapsed_ns(sampling: &Sampling) -> u64 {
    u64::try_from(sampling.progress().elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Shows the progress until the measurement is over or the user interrupts. It also writes the results so far
/// to the file of the checkpoint.
fn look_after(
    args: &LatencyArgs,
    config: &Config,
    sampling: &Sampling,
    results: &mut Results,
    mut splitting: Option<&mut Splitter>,
    stop: &Stop,
) {
    let shown = !args.quiet && io::stderr().is_terminal();
    let bar = shown.then(|| progress::sampling(length(config.limit)));
    let mut recent = RecentMaximum::new();
    let (mut show_at, mut keep_at) = (Instant::now(), Instant::now() + args.checkpoint_every.duration());
    while !sampling.is_over() && !stop.is_requested() {
        thread::sleep(LOOK_EVERY);
        if let Some(splitting) = splitting.as_deref_mut() {
            splitting.look();
        }
        let now = Instant::now();
        if let Some(bar) = bar.as_ref().filter(|_| now >= show_at) {
            show(bar, config.limit, &sampling.progress(), recent.look(sampling));
            show_at = now + SHOW_EVERY;
        }
        if let Some(path) = args.checkpoint.as_ref().filter(|_| now >= keep_at) {
            // If a checkpoint cannot be written, the measurement goes on: the next checkpoint may succeed.
            results.culprits = splitting.as_deref().and_then(Splitter::culprits);
            if let Err(error) = checkpoint(path, sampling, results) {
                match &bar {
                    Some(bar) => bar.suspend(|| say!("spry: {error:#}")),
                    None => say!("spry: {error:#}"),
                }
            }
            keep_at = Instant::now() + args.checkpoint_every.duration();
        }
    }
    bar.inspect(ProgressBar::finish_and_clear);
}

fn checkpoint(path: &Path, sampling: &Sampling, results: &mut Results) -> Result<()> {
    results.threads = sampling.so_far();
    results.elapsed_ns = elapsed_ns(sampling);
    Ok(results.save(path)?)
}

/// The maximum of the samples of about the last second.
struct RecentMaximum {
    until: Instant,
    max_ns: u64,
}

impl RecentMaximum {
    fn new() -> RecentMaximum {
        RecentMaximum { until: Instant::now() + RECENT, max_ns: 0 }
    }

    fn look(&mut self, sampling: &Sampling) -> u64 {
        let max_ns = sampling.take_recent_max_ns();
        let now = Instant::now();
        if now >= self.until {
            *self = RecentMaximum { until: now + RECENT, max_ns };
        }
        self.max_ns = self.max_ns.max(max_ns);
        self.max_ns
    }
}

/// The length of the progress bar, in the unit of the limit: milliseconds or samples. `None` if
/// there is no limit.
fn length(limit: Limit) -> Option<u64> {
    match limit {
        Limit::Forever => None,
        Limit::Duration(duration) => Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        Limit::Samples(samples) => Some(samples),
    }
}

fn show(bar: &ProgressBar, limit: Limit, so_far: &Progress, recent_ns: u64) {
    let position =
        if let Limit::Samples(_) = limit { so_far.samples } else { so_far.elapsed.as_millis() as u64 };
    bar.set_position(position);
    if so_far.samples == 0 {
        bar.set_message("warming up");
        return;
    }
    bar.set_message(format!(
        "{:.0} s, {} samples, {} missed, max {}, last second {}",
        so_far.elapsed.as_secs_f64(),
        count(so_far.samples),
        count(so_far.missed),
        duration(so_far.max_ns),
        duration(recent_ns)
    ));
}

/// Prints the results and keeps them in a file. They are printed even if the file cannot be written.
fn tell(args: &LatencyArgs, results: &Results) -> Result<()> {
    let kept = keep(args, results);
    let printed = if args.json {
        output::print(&format!("{}\n", serde_json::to_string(&json::report(results))?))
    } else {
        output::print(&text::report(results))
    };
    kept.and(printed)
}

fn keep(args: &LatencyArgs, results: &Results) -> Result<()> {
    for path in args.output.iter().chain(&args.checkpoint) {
        results.save(path)?;
    }
    if let Some(path) = &args.histfile {
        let threads: Vec<_> = results.threads.iter().map(|thread| &thread.latency).collect();
        write(path, &histfile::write(&threads, histfile::LINES_DEFAULT))?;
    }
    if let (Some(path), Some(culprits)) = (&args.folded, &results.culprits) {
        write(path, &folded(culprits))?;
    }
    if let Some(path) = &args.html {
        write(path, &html::page(results))?;
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
