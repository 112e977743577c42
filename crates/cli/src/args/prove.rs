//! The command lines of running scenarios, comparing results and looking after the lab.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use spry_experiment::Vary;
use spry_experiment::scheduler::SchedulerSpec;
use spry_lab::RATES_HZ;

use super::CellArgs;

const RUN_EXAMPLES: &str = "\
Examples:
  spry run movie --on host                                  25 frames a second beside nothing, on this kernel
  spry run movie --on lab --vary stressers=0,1,2,4,8        beside loops, where every run repeats exactly
  spry run typing --on lab --scheduler eevdf --scheduler scx_bpfland --vary stressers=0,8 --seeds 3
  spry run movie --on lab --scheduler eevdf:base_slice_us=700,preempt=full
  spry run mine.toml --on lab --scheduler './scx_mine:--slice-us 500' --json
  spry run movie --on lab --record && spry report results/movie-lab-*/traces/eevdf-seed1.spry

Schedulers: eevdf[:base_slice_us=N,features=NAME+NO_NAME,preempt=none|voluntary|full|lazy], fifo,
  rr[:timeslice_ms=N], scx_NAME[:ARGUMENTS] (`./x peers` builds the published ones), or the path of any
  sched_ext binary, :ARGUMENTS after it.
Kernels of the lab: newest, newest-generic, newest-rt, stable, stable-generic, stable-rt, older,
  older-generic, one that was built (100hz, 20000hz-periodic; `spry lab kernels` lists them), or a file.
Results are kept in a directory with everything needed to repeat them; `spry compare` shows two side by side.
Exit codes: 0 done, 1 a cell came to nothing, 2 a mistake in the scenario or the command line,
  130 interrupted.";

/// Arguments of `run`.
#[derive(clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// A scenario file (TOML, or rt-app's JSON; `-` is standard input), or the name of one that comes with
    /// Spry (`spry scenario list`).
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Where it runs: this machine, or the lab's virtual one.
    #[arg(long, value_enum)]
    pub on: MachineArg,
    /// A scheduler to run under; can be given several times.
    #[arg(long, value_name = "NAME", default_value = "eevdf")]
    pub scheduler: Vec<SchedulerSpec>,
    /// Run with each of these values of a variable; can be given several times, for every combination.
    #[arg(long, value_name = "KEY=A,B,..")]
    pub vary: Vec<Vary>,
    /// Run everything with this many seeds, 1 to N, and show the spread.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Record a trace of each cell, for `spry report`; this changes the figures a little.
    #[arg(long)]
    pub record: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// The directory for the results; otherwise results/SCENARIO-MACHINE-DIGEST.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub playing: CellArgs,
}

/// Where a scenario runs.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MachineArg {
    /// This machine, in real time.
    Host,
    /// A virtual machine in which time advances with instructions, so that a run repeats exactly.
    Lab,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  spry compare results/movie-lab-1a2b3c4d results/movie-lab-5e6f7a8b
  spry compare base/results.json new/results.json --fail-if-worse     for continuous integration
  spry compare none.json voluntary.json full.json --html kernels.html
                                                      what `spry latency -o` kept, over each other
  spry compare a1.json a2.json a3.json b1.json b2.json b3.json --pool
                                                      runs of one setup together, with their spread

Scenarios: between different machines only shares and ratios are compared. Recorded and unrecorded runs are
not compared.
Latencies: percents below the article's thresholds (Williams 2002), quantiles with 95 % intervals, maxima,
means; a difference is more than noise where intervals do not overlap, and, of pooled runs, where no run
reaches one of the others.
Exit codes: 0 done, 1 failed, or worse with --fail-if-worse.";

/// Arguments of `compare`.
#[derive(clap::Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// Directories of `spry run`'s results, or their results.json: the first is compared with each of the
    /// others. Or any number of files that `spry latency -o` kept. `-` is standard input.
    #[arg(value_name = "RESULTS", num_args = 2.., required = true)]
    pub results: Vec<PathBuf>,
    /// Exit with 1 if any figure is worse than the first's by more than its spread.
    #[arg(long)]
    pub fail_if_worse: bool,
    /// Latencies: put runs of one setup together (kernel, preemption, scheduler, source, rate, priority,
    /// load), and show their spread.
    #[arg(long)]
    pub pool: bool,
    /// Latencies: compare them with those that missed periods would have had.
    #[arg(long)]
    pub corrected: bool,
    /// Latencies: print JSON.
    #[arg(long)]
    pub json: bool,
    /// Latencies: write a self-contained page, with their histograms over each other.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Latencies: columns of the text; the terminal's if not given.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,
}

/// Arguments of `scenario`.
#[derive(clap::Args)]
pub struct ScenarioArgs {
    #[command(subcommand)]
    pub command: ScenarioCommand,
}

/// What can be done with scenario files.
#[derive(Subcommand)]
pub enum ScenarioCommand {
    /// Say what scenario files hold, or where their mistakes are.
    #[command(after_help = "Example:\n  spry scenario check mine.toml taskset.json\n\n\
                      Exit code 2 if there is a mistake.")]
    Check {
        /// The files (`-` is standard input), or names of scenarios that come with Spry.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Print nothing but mistakes.
        #[arg(short, long)]
        quiet: bool,
    },
    /// List the scenarios that come with Spry, and their variables.
    List,
    /// List the kinds of tasks that a scenario can name, and their keys.
    Kinds,
    /// Print a scenario that comes with Spry, to start one's own from.
    #[command(after_help = "Example:\n  spry scenario show movie > mine.toml")]
    Show {
        /// The name of the scenario.
        name: PathBuf,
    },
}

/// Arguments of `lab`.
#[derive(clap::Args)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What can be done with the lab.
#[derive(Subcommand)]
pub enum LabCommand {
    /// Say what the lab lacks on this machine, and how to get it.
    Doctor,
    /// Build kernels for the lab.
    Kernel {
        #[command(subcommand)]
        command: KernelCommand,
    },
    /// List the kernels that can be chosen with `spry run --kernel`.
    Kernels,
    /// List the machines that have been booted and saved for cells to begin from.
    #[command(
        after_help = "Each is booted once for its kernel, image, parameters, CPUs and emulator. All of them \
                      take at most 8 GiB;\nthose that were not used for longest are removed first.\n\n\
                      Examples:\n  spry lab machines\n  spry lab machines --json | jq '.[].kernel'"
    )]
    Machines {
        /// As JSON, an array.
        #[arg(long)]
        json: bool,
    },
    /// Fetch the newest lists of packages; results made from newer packages differ from those before.
    Refresh,
    /// Remove what the lab has fetched and built.
    Clean,
}

/// What can be done with the lab's kernels.
#[derive(Subcommand)]
pub enum KernelCommand {
    /// Build a small kernel with another tick rate from the distribution's newest source; takes 10
    /// minutes on two CPUs, once.
    #[command(after_help = KERNEL_BUILD_HELP)]
    Build {
        /// Ticks a second: 50, 100, 250, 300, 1000, 5000, 10000 or 20000.
        #[arg(long, value_name = "N", value_parser = rate_hz)]
        hz: u32,
        /// A kernel that ticks always, with timers that expire at ticks, as in the papers; otherwise it ticks
        /// while a CPU is busy, and timers expire when they are due.
        #[arg(long)]
        periodic: bool,
        /// A kernel in which the timers of unmodified programs may expire up to an overshoot late, and are
        /// served at the return to user mode if that comes first (kernel.firm_overshoot_us).
        #[arg(long, conflicts_with = "periodic")]
        firm: bool,
        /// Apply this patch to the source before (`patch -p1`).
        #[arg(long, value_name = "FILE")]
        patch: Option<PathBuf>,
    },
}

const KERNEL_BUILD_HELP: &str = "\
Examples:
  spry lab kernel build --hz 100 && spry run alarms --on lab --kernel 100hz
  spry lab kernel build --hz 20000 --periodic
  spry run alarms --on lab --kernel 20000hz-periodic --vary kind=CONT --vary n=8 --vary quantum_ms=0.1
  spry lab kernel build --hz 1000 --patch my-tick.patch       spry run --kernel 1000hz+my-tick
  spry lab kernel build --hz 100 --firm                    in the guest: sysctl kernel.firm_overshoot_us=500

A kernel's name is its rate (20000hz), with -periodic, -firm and +PATCH where these were given;
`spry lab kernels` lists those that were built. A newer source or a changed patch is built anew, and the name
means the one built last. Kernels of 5000 Hz and more take round-robin quanta in microseconds too
(kernel.sched_rr_timeslice_us, rounded up to whole ticks). With --firm, kernel.firm_overshoot_us is the
overshoot of all users' timers (-1, the default: none; 0: each timer's own slack), and kernel.firm_counts has
three numbers: checks, timers served at checks, timers served by interrupts.";

/// A tick rate that the lab builds kernels for.
fn rate_hz(text: &str) -> Result<u32, String> {
    let rates = RATES_HZ.map(|hz| hz.to_string()).join(", ");
    let known = RATES_HZ.into_iter().find(|hz| hz.to_string() == text);
    known.ok_or_else(|| format!("the rates are {rates} Hz"))
}
