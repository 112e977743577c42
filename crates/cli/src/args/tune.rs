//! Arguments of `tune`.

use std::ffi::OsString;

use clap::{ArgGroup, ValueEnum};
use spry_control::QuantumClass;
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
  sudo spry tune --class idle --quantum-us 20000  longer turns for the daemon's class of idle tasks
  sudo spry tune --default                        the daemon's own tick and quanta again
  spry tune                                       what the daemon has set, and what its tick costs

What was set is on standard error: what it was → what it is. A command's own slice stays with it and with what it
starts. What is set for the machine (with --all, for `rr`, and HRTICK, by which turns end on time instead of at the
next tick: as root it is switched on where it is off) is given back when the command ends, also if spry is killed.
`--class rr` sets the quantum and makes no task a real-time one. The tick itself is fixed when a kernel is built, so
with a command --tick-hz takes the kernel's own rate alone. Without a command, the scheduler daemon ticks for all
tasks that are not in use, through sched_ext, until it ends (docs/tuning.md). The classes `interactive` and `idle`
are the daemon's alone: each process in use, or each idle task, has that quantum until the daemon ends.

Exit codes: as CMD; 125 if a knob could not be set, 126 or 127 if CMD could not be started, 2 wrong usage.";

/// Arguments of `tune`.
#[derive(clap::Args)]
#[command(
    after_help = TUNE_EXAMPLES,
    group = ArgGroup::new("knob").multiple(true).args(["quantum_us", "tick_hz", "restore", "default"]),
    group = ArgGroup::new("quantum").args(["quantum_us", "default"])
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
    /// The class that gets the quantum; `fair` if none is given.
    #[arg(long, value_enum, requires = "quantum")]
    pub class: Option<TuneClassArg>,
    /// For all ordinary tasks of the machine that have no slice of their own; needs root.
    #[arg(long, requires_all = ["quantum_us", "command"])]
    pub all: bool,
    /// Say what was set, and what was given back, as one line of JSON each.
    #[arg(long)]
    pub json: bool,
    /// Give back what was set by runs that were killed together with their guardians; each run does so, too.
    #[arg(long, conflicts_with_all = ["quantum_us", "tick_hz", "command"])]
    pub restore: bool,
    /// Give the scheduler daemon's own tick and quanta back; with --class, only that class' quantum.
    #[arg(long, conflicts_with_all = ["quantum_us", "tick_hz", "restore", "command"])]
    pub default: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
    /// The command; the knobs are set as long as it runs. Without one, the scheduler daemon is asked.
    #[arg(last = true, value_name = "CMD", requires = "knob")]
    pub command: Vec<OsString>,
}

/// A class of the kernel's or of the scheduler daemon's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TuneClassArg {
    /// Ordinary tasks: the command, and what it starts; without a command, tasks that are not in use.
    #[value(alias = "other")]
    Fair,
    /// Real-time tasks that take turns (round-robin): those of the whole machine; needs root.
    Rr,
    /// Processes in use, whatever their levels are; asks the scheduler daemon, needs root.
    Interactive,
    /// Tasks that get only CPU time that no other task needs; asks the scheduler daemon, needs root.
    Idle,
    /// Tasks with a reservation; they have no quantum.
    #[value(hide = true)]
    Reserved,
    /// The scheduler daemon's own threads; they have no quantum.
    #[value(hide = true)]
    Daemon,
    /// Threads of the kernel; they have no quantum.
    #[value(hide = true)]
    Kthread,
}

/// What a class' quantum is, or why it has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantum {
    /// A quantum of a class of the kernel's, which is set while a command runs.
    Kernel(Class),
    /// A quantum of a class of the scheduler daemon's.
    Daemon(QuantumClass),
    /// No quantum, for this reason.
    None(&'static str),
}

impl TuneClassArg {
    /// What the class' quantum is. Without a command, `fair` is the daemon's OTHER.
    pub const fn quantum(self) -> Quantum {
        match self {
            TuneClassArg::Fair => Quantum::Kernel(Class::Fair),
            TuneClassArg::Rr => Quantum::Kernel(Class::RoundRobin),
            TuneClassArg::Interactive => Quantum::Daemon(QuantumClass::Interactive),
            TuneClassArg::Idle => Quantum::Daemon(QuantumClass::Idle),
            TuneClassArg::Reserved => Quantum::None(
                "a task of the class reserved runs for its reservation's budget, which `spry reserve` sets",
            ),
            TuneClassArg::Daemon => Quantum::None(
                "threads of the class daemon run in the order in which they come, within a budget; \
                 they take no turns",
            ),
            TuneClassArg::Kthread => Quantum::None(
                "threads of the class kthread run in the order in which they come, within a budget; \
                 they take no turns",
            ),
        }
    }
}
