//! The command line of measuring latencies.

use std::path::PathBuf;

use clap::ValueEnum;
use spry_latency::{Limit, PRIORITY_DEFAULT, Placement, RATE_DEFAULT_HZ, Source};

use super::load::names as load_names;
use crate::timespan::Timespan;

const LATENCY_EXAMPLES: &str = "\
Examples:
  sudo spry latency --duration 60                  2048 times a second on every CPU, for a minute
  sudo spry latency --samples 5000000 --cpus 0     as the article did: five million samples on one CPU
  sudo spry latency --duration 60 --json | jq '.quantiles'
  sudo spry latency --histfile h.txt --duration 60 for scripts that plot cyclictest's histograms
  sudo spry latency --threshold 500 --duration 60  what each sample is made of, and what is in \
  the way past 500 us
  sudo spry latency --load all --duration 2min     beside the article's loads (see spry load list)
  sudo spry latency --duration 72h --checkpoint night.latency.json --html night.html
  spry latency --priority 0 --duration 5           without privileges: what ordinary threads get

A sample is how much later a thread reads the clock than it was due to wake. Its first second, \
or tenth of a shorter run, is
discarded. Periods that passed while a thread still waited are counted as missed; \
corrected figures have their samples in.
Without --duration and --samples it measures until Ctrl-C, which ends it in order.
Exit codes: 0 done, 1 failed (one line says why and what to grant), 130 interrupted before its time, \
with what there was.";

/// Arguments of `latency`.
#[derive(clap::Args)]
#[command(after_help = LATENCY_EXAMPLES)]
pub struct LatencyArgs {
    /// How often each thread is woken, Hz; for rtc a power of two from 2 to 8192.
    #[arg(
        short, long, value_name = "HZ", default_value_t = RATE_DEFAULT_HZ,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub rate: u32,
    /// Stop after so many samples of all threads together.
    #[arg(
        short = 'n', long, value_name = "N", conflicts_with = "duration",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub samples: Option<u64>,
    /// Stop after this time (10, 1.5, 300ms, 2min, 72h), missed periods included.
    #[arg(short, long, value_name = "SECONDS")]
    pub duration: Option<Timespan>,
    /// CPUs to measure on, a thread each (0,2-3), or `any`: one thread that the scheduler may move;
    /// otherwise all CPUs.
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<Placement>,
    /// SCHED_FIFO priority of the threads, 1 to 99; 0 measures as an ordinary thread.
    #[arg(
        short, long, value_name = "P", default_value_t = PRIORITY_DEFAULT,
        value_parser = clap::value_parser!(u8).range(0..=99)
    )]
    pub priority: u8,
    /// What wakes the threads.
    #[arg(long, value_enum, default_value_t = SourceArg::Nanosleep)]
    pub source: SourceArg,
    /// Measure beside these loads, separated by commas: those of `spry load list`, or `all`
    /// that can run here.
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', value_parser = load_names())]
    pub load: Vec<String>,
    /// Split each sample: the timer's interrupt, its work, until the CPU reschedules, and the
    /// scheduler's part.
    #[arg(long)]
    pub split: bool,
    /// Past this latency (us, or with a unit) keep what was in the way, and where in the code; splits, too.
    #[arg(short, long, value_name = "US", value_parser = microseconds)]
    pub threshold: Option<Timespan>,
    /// Write the culprits' stacks as flame graphs take them.
    #[arg(long, value_name = "FILE", requires = "threshold")]
    pub folded: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a histogram in cyclictest's format: a line a microsecond, a column a thread.
    #[arg(long, value_name = "FILE")]
    pub histfile: Option<PathBuf>,
    /// Write a self-contained page.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Keep the results, with their whole histograms.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep what there is so far, again and again, so that a kill costs little.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// The time between two checkpoints.
    #[arg(long, value_name = "TIME", default_value = "1min", requires = "checkpoint", value_parser = positive)]
    pub checkpoint_every: Timespan,
    /// No progress bar.
    #[arg(short, long)]
    pub quiet: bool,
}

fn positive(text: &str) -> Result<Timespan, String> {
    longer_than_0(text.parse()?)
}

fn microseconds(text: &str) -> Result<Timespan, String> {
    longer_than_0(Timespan::microseconds(text)?)
}

fn longer_than_0(span: Timespan) -> Result<Timespan, String> {
    if span.ns() == 0 { Err("the time must be longer than 0".to_owned()) } else { Ok(span) }
}

impl LatencyArgs {
    /// When the measurement ends by itself.
    pub fn limit(&self) -> Limit {
        match (self.samples, self.duration) {
            (Some(samples), _) => Limit::Samples(samples),
            (None, Some(duration)) => Limit::Duration(duration.duration()),
            (None, None) => Limit::Forever,
        }
    }
}

/// What wakes sampling threads.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceArg {
    /// clock_nanosleep to an absolute time, as cyclictest does.
    Nanosleep,
    /// A periodic timerfd.
    Timerfd,
    /// The periodic interrupt of /dev/rtc0, as realfeel did.
    Rtc,
}

impl From<SourceArg> for Source {
    fn from(source: SourceArg) -> Source {
        match source {
            SourceArg::Nanosleep => Source::Nanosleep,
            SourceArg::Timerfd => Source::Timerfd,
            SourceArg::Rtc => Source::Rtc,
        }
    }
}
