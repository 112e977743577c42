//! The command `spry bench`.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use anyhow::Result;
use indicatif::ProgressBar;
use spry_bench::{Benchmark, Config, RunWatch, json, text};
use spry_experiment::Stop;

use crate::args::BenchArgs;
use crate::output;
use crate::progress;
use crate::stopping;

/// Runs the benchmarks, shows the progress, and prints the results.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let stop = stopping::on_signals()?;
    let config = Config {
        cpu: args.cpu,
        only: args.only.iter().copied().map(Benchmark::from).collect(),
        duration: args.duration.duration(),
        priority: args.priority,
    };
    let is_shown = !args.quiet && io::stderr().is_terminal();
    let looking = BenchWatch { stop, bar: is_shown.then(|| progress::measuring(config.duration)) };
    let report = spry_bench::run(&config, &looking);
    looking.bar.inspect(ProgressBar::finish_and_clear);
    let report = report?;
    if args.json {
        output::print(&format!("{}\n", serde_json::to_string(&json::report(&report))?))?;
    } else {
        output::print(&text::report(&report))?;
    }
    Ok(if report.interrupted {
        ExitCode::from(stopping::INTERRUPTED)
    } else if report.lacks.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Shows the benchmarks' progress, and passes the user's request to stop on to them.
struct BenchWatch {
    stop: Stop,
    bar: Option<ProgressBar>,
}

impl RunWatch for BenchWatch {
    fn progress(&self, part: f64, what: &'static str) {
        let Some(bar) = &self.bar else { return };
        let length = bar.length().unwrap_or_default();
        bar.set_position((part * length as f64) as u64);
        bar.set_message(what);
    }

    fn is_over(&self) -> bool {
        self.stop.is_requested()
    }
}
