//! Arguments of `tune`.

use std::ffi::OsString;

use clap::{ArgGroup, ValueEnum};
use spry_tune::Class;

use super::SocketArgs;

const TUNE_EXAMPLES: &str = "\
Examples:
  spry tune --quantum-us 3000 -- make -j8         turns of 3 ms for make and what it starts; needs no root
  spry tune --quantum-us 500 -- ./server          short turns: it waits less, and is switched more often
  sudo spry tune --all --quantum-us 200 -- ./run  for all ordinary tasks of the machine, while ./run runs
  sudo spry tune --class rr --quantum-us 2000 -- chrt --rr 1 ./control
                                                  the round-robin quantum; chrt puts the command into that class
  sudo spry tune --restore                        what was set when spry and its guardian were both killed
  sudo spry tune --tick-hz 20000 --quantum-us 100 without a command: asks the scheduler daemon (spry sched run)
  sudo spry tune --default                        the daemon's own tick and quantum again

What was set is on standard error: what it was → what it is. A command's own slice stays with it and with what it
starts. What is set for the machine (with --all, for `rr`, and HRTICK, by which turns end on time instead of at the
next tick: as root it is switched on where it is off) is given back when the command ends, also if spry is killed.
`--class rr` sets the quantum and makes no task a real-time one. The tick itself is fixed when a kernel is built, so
with a command --tick-hz takes the kernel's own rate alone. Without a command, the scheduler daemon ticks for all
tasks that are not in use, through sched_ext, until it ends (docs/tuning.md).

Exit codes: as CMD; 125 if a knob could not be set, 126 or 127 if CMD could not be started, 2 wrong usage.";

/// Arguments of `tune`.
#[derive(clap::Args)]
#[command(
    after_help = TUNE_EXAMPLES,
    group = ArgGroup::new("knob").required(true).multiple(true).args(["quantum_us", "tick_hz", "restore", "default"])
)]
pub struct TuneArgs {
    /// How long a task runs before the next one has its turn, microseconds: 50 to 100000; a command's own
    /// slice is 100 at least.
    #[arg(long, value_name = "US", allow_hyphen_values = true)]
    pub quantum_us: Option<String>,
    /// The rate of the tick, 100 to 20000 Hz: of the daemon's; with a command, of the kernel's, and a kernel
    /// with another rate is an error.
    #[arg(long, value_name = "HZ", allow_hyphen_values = true)]
    pub tick_hz: Option<String>,
    /// The class that gets the quantum.
    #[arg(long, value_enum, default_value_t = TuneClassArg::Fair, requires = "quantum_us")]
    pub class: TuneClassArg,
    /// For all ordinary tasks of the machine that have no slice of their own; needs root.
    #[arg(long, requires_all = ["quantum_us", "command"])]
    pub all: bool,
    /// Say what was set, and what was given back, as one line of JSON each.
    #[arg(long)]
    pub json: bool,
    /// Give back what was set by runs that were killed together with their guardians; each run does so, too.
    #[arg(long, conflicts_with_all = ["quantum_us", "tick_hz", "command"])]
    pub restore: bool,
    /// Give the scheduler daemon's own tick and quantum back.
    #[arg(long, conflicts_with_all = ["quantum_us", "tick_hz", "restore", "command"])]
    pub default: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
    /// The command; the knobs are set as long as it runs. Without one, the scheduler daemon is asked.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// A class of the kernel's that has a quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TuneClassArg {
    /// Ordinary tasks: the command, and what it starts.
    Fair,
    /// Real-time tasks that take turns (round-robin): those of the whole machine; needs root.
    Rr,
}

impl From<TuneClassArg> for Class {
    fn from(class: TuneClassArg) -> Class {
        match class {
            TuneClassArg::Fair => Class::Fair,
            TuneClassArg::Rr => Class::RoundRobin,
        }
    }
}
