//! The arguments of the command line, with their help.

mod act;
mod bench;
mod ceiling;
mod latency;
mod load;
mod prove;
mod reproduce;
mod reserve;
mod shared;
mod slack;
mod tune;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use spry_trace::Group;

use crate::flight::Condition;
use crate::timespan::Timespan;

pub use act::{ExplainArgs, SchedArgs, SchedCommand, SortArg, TopArgs};
pub use bench::BenchArgs;
pub use ceiling::CeilingArgs;
pub use latency::LatencyArgs;
pub use load::{LoadArgs, LoadBounds, LoadCommand, LoadListArgs};
pub use prove::{
    CompareArgs, KernelCommand, LabArgs, LabCommand, MachineArg, RunArgs, ScenarioArgs, ScenarioCommand,
};
pub use reproduce::{BootsArgs, InteractiveArgs, ReproduceArgs, ReproduceCommand};
pub use reserve::{ReservationsArgs, ReserveArgs};
pub use shared::{CellArgs, ColourArg, SocketArgs, TextArgs};
pub use slack::SlackArgs;
pub use tune::{Quantum, TuneArgs, TuneClassArg};

const EXAMPLES: &str = "\
Examples:
  spry record --duration 10             what happens on this machine in 10 s, into trace.spry
  spry record -o build.spry -- make     while a command runs
  spry report                           what delayed what
  spry report build.spry --html r.html  the same as a page with pictures
  spry export build.spry --to perfetto -o build.pftrace
  spry run movie --on lab --scheduler eevdf --scheduler scx_bpfland --vary stressers=0,4,8
  spry reproduce interactive --quick    the thesis' figures, the stock scheduler beside Spry
  spry sched run --observe-only         what is in use? `spry top` shows it; nothing is changed
  spry sched run                        keep what you use on time, until Ctrl-C
  spry explain 4711                     why a process is in use, or why not
  spry reserve --budget 2ms --period 10ms -- CMD
                                        a fifth of a CPU for CMD, 2 ms in every 10 ms
  spry tune --quantum-us 3000 -- make   longer turns for a command: fewer switches
  spry slack --overshoot 5ms -- ./indexer
                                        its timers may be late, and wake the CPU less often
  sudo spry latency --duration 60       how late this kernel wakes a thread, at worst and at five nines
  spry load all --duration 60           the papers' loads, confined, and gone afterwards
  spry bench                            what a switch, a trap and an interrupt cost, beside older machines

Exit codes: 0 done, 1 failed (one line on standard error says why and what to do), 2 wrong usage.
`spry record`, `reserve`, `tune` and `slack` with -- CMD exit as CMD did; 125 if recording, reserving or tuning failed, 126 or 127 if CMD could not be started.";

/// See what delays what you are using, and keep it on time.
#[derive(Parser)]
#[command(name = "spry", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Record every scheduling event of the machine.
    Record(RecordArgs),
    /// Say which tasks delayed others in a trace, and much else.
    Report(ReportArgs),
    /// Write a trace in another program's format.
    Export(ExportArgs),
    /// Run a scenario under one or several schedulers, here or in the lab, and show the figures.
    Run(RunArgs),
    /// Keep what you use on time: the scheduler that follows it.
    Sched(SchedArgs),
    /// Watch what is in use, and how they fare.
    Top(TopArgs),
    /// Say why a process is in use, or why not, and what delayed it.
    Explain(ExplainArgs),
    /// Reserve CPU time for a program or a thread: so much in every period.
    Reserve(ReserveArgs),
    /// Show the reservations, and what their tasks got.
    Reservations(ReservationsArgs),
    /// Give a shared server the rank of the reserved tasks that ask it for service.
    Ceiling(CeilingArgs),
    /// Set the quantum of the kernel's own classes while a command runs.
    Tune(TuneArgs),
    /// Set how late the timers of a command may expire, so that one wake-up serves several.
    Slack(SlackArgs),
    /// Measure how late this kernel wakes a thread.
    Latency(LatencyArgs),
    /// Load the machine as the papers did, confined, and leave nothing behind.
    Load(LoadArgs),
    /// Measure what switches, traps, copies and interrupts cost on this machine.
    Bench(BenchArgs),
    /// Show results side by side, and which differences are larger than chance.
    Compare(CompareArgs),
    /// Make the papers' figures again, in the lab.
    Reproduce(ReproduceArgs),
    /// Check and list scenarios.
    Scenario(ScenarioArgs),
    /// Look after the lab: virtual machines in which a real kernel's scheduling repeats exactly.
    Lab(LabArgs),
    /// List the analyses, and the events each needs.
    Analyses(AnalysesArgs),
    /// Put a mark into the traces being recorded.
    Mark(MarkArgs),
    /// Print a shell's completions.
    Completions(CompletionsArgs),
    /// Write the manual pages.
    Man(ManArgs),
}

/// The trace that `record` writes and `report` reads if the user names no other.
pub const TRACE_DEFAULT: &str = "trace.spry";

const RECORD_EXAMPLES: &str = "\
Examples:
  spry record --duration 10
  spry record --events sched,timer,irq,resched --duration 5 -o wake.spry
  spry record --events sched,ipc -- ./game
  spry record --flight 10 --when 'latency>2ms of player'    keep the 10 s before player is that late
  spry record --paused &  kill -USR1 $!    switch recording on; -USR2 switches it off

Ctrl-C ends a recording in order. Groups: sched (always), timer, irq, resched, ipc, mark, stack, idle.
Marks: any program may write a line to /dev/spry-mark while the group `mark` is recorded.";

/// Arguments of `record`.
#[derive(clap::Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub struct RecordArgs {
    /// The trace to write; readable by you alone.
    #[arg(short, long, value_name = "FILE", default_value = TRACE_DEFAULT)]
    pub output: PathBuf,
    /// Stop after this time (10, 1.5, 300ms, 2min).
    #[arg(short, long, value_name = "SECONDS")]
    pub duration: Option<Timespan>,
    /// Groups of events to record, separated by commas; `sched` is always among them.
    #[arg(short, long, value_name = "GROUPS", value_delimiter = ',', value_parser = parse_group)]
    pub events: Vec<Group>,
    /// End with one line of JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// How the trace is compressed.
    #[arg(long, value_enum, default_value_t = CompressArg::Zstd)]
    pub compress: CompressArg,
    /// Buffer for each CPU, MiB (a power of two).
    #[arg(long, value_name = "MIB", default_value_t = 16)]
    pub buffer: usize,
    /// Begin switched off, until SIGUSR1.
    #[arg(long)]
    pub paused: bool,
    /// Flight recorder: keep the latest seconds in memory, and write them only when `--when` comes true.
    #[arg(long, value_name = "SECONDS", requires = "when")]
    pub flight: Option<Timespan>,
    /// What a flight recorder waits for: `latency>US`, or with a unit (`latency>2ms`), of any task or `of
    /// NAME`: from its wake-up until it runs.
    #[arg(long, value_name = "CONDITION", requires = "flight")]
    pub when: Option<Condition>,
    /// How often it may come true before a flight recorder ends; further traces have numbered names.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..), requires = "flight"
    )]
    pub times: u32,
    /// What a flight recorder may keep, MiB; if that is too little, the seconds are fewer.
    #[arg(long, value_name = "MIB", default_value_t = 256, requires = "flight")]
    pub memory: usize,
    /// No progress bar and no closing words.
    #[arg(short, long)]
    pub quiet: bool,
    /// What the trace says of the machine; the lab's own say `lab`.
    #[arg(long, value_name = "NAME", default_value = "host", hide = true)]
    pub machine: String,
    /// A command to run; recording ends with it.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

fn parse_group(name: &str) -> Result<Group, String> {
    Group::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Group::ALL.iter().map(|group| group.name()).collect();
        format!("groups are {}", names.join(", "))
    })
}

/// How a trace is compressed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompressArg {
    /// Write blocks without compression.
    None,
    /// Compress blocks with zstd.
    Zstd,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  spry report                                    the worst delays, and a screenful of the rest
  spry report trace.spry --analysis billing      one analysis in detail (`spry analyses` lists them)
  spry report trace.spry --task 'mplayer*' --from 2 --to 4.5
  spry report trace.spry --html report.html
  spry report trace.spry --json | jq '.tasks[0]'
  spry report perf.data                          of `perf sched record`; trace.dat of `trace-cmd record \
  -e sched` likewise";

/// Arguments of `report`.
#[derive(clap::Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// The trace; also a perf.data, or a trace.dat of trace-cmd; `-` is standard input.
    #[arg(value_name = "FILE", default_value = TRACE_DEFAULT)]
    pub file: PathBuf,
    /// Only these analyses, in detail; can be given several times.
    #[arg(short, long, value_name = "NAME")]
    pub analysis: Vec<String>,
    /// Only these tasks: a name, a pattern (`cc1*`), a tid or a tgid; `name:` before a name that is a number.
    #[arg(short, long, value_name = "PATTERN")]
    pub task: Option<String>,
    /// Only from this time since the start of the trace (2, 1.5, 300ms).
    #[arg(long, value_name = "T")]
    pub from: Option<Timespan>,
    /// Only up to this time.
    #[arg(long, value_name = "T")]
    pub to: Option<Timespan>,
    /// Tick rates for billing and for skipped wake-ups, Hz.
    #[arg(
        long, value_name = "HZ", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub rates: Vec<u32>,
    /// The process for the graph, which shows its connected component: a name (`name:123`, if it is a
    /// number), a tgid or a tid.
    #[arg(long, value_name = "PATTERN")]
    pub root: Option<String>,
    /// Write a self-contained page.
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
    /// Use at most this many threads; if not given, 5 where there is more than one CPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub text: TextArgs,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  spry export trace.spry --to perfetto -o trace.pftrace    for ui.perfetto.dev
  spry export trace.spry --to parquet -o trace.parquet     for pandas, polars, DuckDB
  spry export trace.spry --to csv -o - | head";

/// Arguments of `export`.
#[derive(clap::Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub struct ExportArgs {
    /// The trace; also a perf.data, or a trace.dat of trace-cmd; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format of the file to write.
    #[arg(long, value_enum)]
    pub to: FormatArg,
    /// The file to write; `-` is standard output.
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// Formats that traces can be exported to.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Perfetto's protobuf.
    Perfetto,
    /// Apache Parquet, one row an event.
    Parquet,
    /// Comma-separated values, one line an event.
    Csv,
}

/// Arguments of `analyses`.
#[derive(clap::Args)]
pub struct AnalysesArgs {
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `mark`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  spry mark \"build started\"\n\n\
                  The same from a shell: echo 'build started' > /dev/spry-mark")]
pub struct MarkArgs {
    /// The mark's text, at most 128 bytes.
    pub text: String,
}

/// Arguments of `completions`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  spry completions bash > /etc/bash_completion.d/spry")]
pub struct CompletionsArgs {
    /// The shell that reads the completions.
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  spry man man && man man/spry-top.1")]
pub struct ManArgs {
    /// The directory to write them into; it is made.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
