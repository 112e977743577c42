//! The command line of measuring what the machine's basic operations cost.

use clap::ValueEnum;
use spry_bench::Benchmark;

use crate::timespan::Timespan;

const BENCH_EXAMPLES: &str = "\
Examples:
  spry bench                              all of it on the last CPU, in about 20 s
  spry bench --only switch,trap           some of it
  sudo spry bench --priority 1            where other programs run meanwhile: they wait
  spry bench --cpu 3 --duration 2min      smaller errors of the means
  spry bench --json | jq '.switch.mean_cycles'

  switch     a byte through a pipe between two processes on one CPU: half a round trip, \
  with its write and read
  trap       getppid by its number
  cache      memcpy whose source and destination fill half of the first and of the second level
  interrupt  what a loop that reads the clock loses to the clock's own interrupt
  sort       half of the second level sorted at 0 to 20,000 timer interrupts a second beside that: \
  what they add, and how
             much of it is not their own time (as a rule what they take out of the caches)

Each with mean, standard deviation and number of samples, beside tables 1 and 2 and section 3 of Etsion, \
Tsafrir and Feitelson
2003, Effects of Clock Resolution. Samples in which somebody else had the CPU are set aside and counted. \
Cycles are the time
stamp counter's, which counts at the nominal rate.
Exit codes: 0 done, 1 something came to nothing (it says why), 130 interrupted, with what there was.";

/// Arguments of `bench`.
#[derive(clap::Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct BenchArgs {
    /// Only these, separated by commas.
    #[arg(long, value_enum, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<BenchmarkArg>,
    /// The CPU to measure on; otherwise the last that may be used, as first ones have more interrupts.
    #[arg(short, long, value_name = "N")]
    pub cpu: Option<u32>,
    /// How long it takes in all (20, 2min).
    #[arg(short, long, value_name = "SECONDS", default_value = "20")]
    pub duration: Timespan,
    /// SCHED_FIFO priority, 1 to 99, which keeps other programs off the CPU; 0 is the ordinary class, as the
    /// article's processes had.
    #[arg(
        short, long, value_name = "P", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=99)
    )]
    pub priority: u8,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// No progress bar.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchmarkArg {
    /// Context switch.
    Switch,
    /// Cost of entering and leaving the kernel.
    Trap,
    /// Bandwidth of the caches.
    Cache,
    /// The clock's interrupt.
    Interrupt,
    /// What interrupts cost beyond their own time.
    Sort,
}

impl From<BenchmarkArg> for Benchmark {
    fn from(arg: BenchmarkArg) -> Benchmark {
        match arg {
            BenchmarkArg::Switch => Benchmark::Switch,
            BenchmarkArg::Trap => Benchmark::Trap,
            BenchmarkArg::Cache => Benchmark::Cache,
            BenchmarkArg::Interrupt => Benchmark::Interrupt,
            BenchmarkArg::Sort => Benchmark::Sort,
        }
    }
}
