//! Arguments of the subcommands that act: `sched`, `top`, `explain`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use spry_control::{HandClass, RunArgs};

use super::{SocketArgs, TextArgs};

const SCHED_EXAMPLES: &str = "\
Examples:
  sudo spry sched run --observe-only     the safe first minute: look with `spry top`, nothing is changed
  sudo spry sched run                    act, until Ctrl-C
  spry sched status                      how it is, and what is in use
  spry sched set 4711 --class idle       only what no other task wants
  sudo spry sched stop                   everything back to the kernel's scheduler";

/// Arguments of `sched`.
#[derive(clap::Args)]
#[command(after_help = SCHED_EXAMPLES)]
pub struct SchedArgs {
    #[command(subcommand)]
    pub command: SchedCommand,
}

const RUN_EXAMPLES: &str = "\
Examples:
  sudo spry sched run --observe-only             look first: nothing is changed
  sudo spry sched run                            act through sched_ext, or else what every kernel has
  sudo spry sched run --actuator fair            not through sched_ext
  sudo spry sched run --display :1 --trust-synthetic
                                                 on Xvfb, whose only input is synthetic

It runs in the foreground. Ctrl-C, SIGTERM and `spry sched stop` end it and give everything \
back. As a service:
`systemctl enable --now spry-sched`.";

#[derive(Subcommand)]
pub enum SchedCommand {
    /// Run the scheduler in the foreground; needs root.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Say how the scheduler is, and what is in use.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// End the scheduler; everything goes back to the kernel's. Only root may.
    Stop(SocketArgs),
    /// Put a process into a class by hand, or give it back to the policy.
    #[command(
        after_help = "Examples:\n  spry sched set 4711 --class idle\n  sudo spry sched set 4711 --class \
                      interactive\n  spry sched set 4711 --class auto\n\n\
                      You may lower your own processes; raising is root's."
    )]
    Set(SetArgs),
}

/// Arguments of `sched status`.
#[derive(clap::Args)]
pub struct StatusArgs {
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// Arguments of `sched set`.
#[derive(clap::Args)]
pub struct SetArgs {
    /// The tgid of the process.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub tgid: u32,
    /// The scheduling class for the process.
    #[arg(long, value_enum)]
    pub class: ClassArg,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// A class that a process can be put into by hand.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClassArg {
    /// In use, whatever the devices say.
    Interactive,
    /// Like most, even if it is in use.
    Other,
    /// Only what no other task wants.
    Idle,
    /// As the policy says, again.
    Auto,
}

impl From<ClassArg> for HandClass {
    fn from(class: ClassArg) -> HandClass {
        match class {
            ClassArg::Interactive => HandClass::Interactive,
            ClassArg::Other => HandClass::Other,
            ClassArg::Idle => HandClass::Idle,
            ClassArg::Auto => HandClass::Auto,
        }
    }
}

const STATUS_EXAMPLES: &str = "\
Examples:
  spry sched status
  spry sched status --json | jq '.tasks[] | select(.level != null)'

Without root it tells of your own programs and devices.";

const TOP_EXAMPLES: &str = "\
Examples:
  spry top                  live, until q
  spry top --once           one table, after a second of looking
  spry top --sort cpu

Keys: up and down choose a process, Enter says why it is in use, Esc goes back; l, c, i, o, d, \
n sort by level, CPU share,
input, output (drawing), dispatch latency and name; w shows all warnings; q quits.

Without root it shows your own programs; `sudo spry top` shows everybody's.";

/// Arguments of `top`.
#[derive(clap::Args)]
#[command(after_help = TOP_EXAMPLES)]
pub struct TopArgs {
    /// Print one table and end; so does output into a pipe.
    #[arg(long)]
    pub once: bool,
    /// What comes first.
    #[arg(long, value_enum, default_value_t = SortArg::Level)]
    pub sort: SortArg,
    /// Columns of the table; the terminal's if not given.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,
    #[command(flatten)]
    pub socket: SocketArgs,
}

/// What `top` is sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SortArg {
    /// The lowest level first, then by CPU share.
    Level,
    /// The largest share of a CPU first.
    Cpu,
    /// The most input first.
    Input,
    /// The most drawing first.
    Output,
    /// The longest waits for a CPU first.
    Dispatch,
    /// In order of the names.
    Name,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  spry explain 4711
  spry explain $(pidof vi) --trace trace.spry    what delayed it, too
  spry explain 4711 --json

Without root you may ask about your own processes.";

/// Arguments of `explain`.
#[derive(clap::Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// The process, or one of its threads.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub tgid: u32,
    /// A trace to say from what delayed it; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub text: TextArgs,
    #[command(flatten)]
    pub socket: SocketArgs,
}
