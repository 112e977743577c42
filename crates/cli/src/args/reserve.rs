//! Arguments of the subcommands of reservations: `reserve` and `reservations`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, ValueEnum};
use spry_control::OnExhaustion;

use super::SocketArgs;

const RESERVE_EXAMPLES: &str = "\
Examples:
  spry reserve --budget 3276.8us --period 8192us -- ./player film    for a program, from its start on
  spry reserve --budget 2ms --period 10ms --tid 4711                 for a thread that runs already
  spry reserve --budget 3ms --period 10ms --tid 4711                 the same reservation, larger
  producer | spry reserve --real-rate -- consumer                    as much as keeps the pipe half full
  spry reserve --release 0                                           end the reservation in slot 0
  spry reserve --from-trace trace.spry --task player                 which reservation would fit it
  spry reserve --audio                                               for what PipeWire plays, until Ctrl-C
  spry reserve --audio --json | grep refused                         what of it did not fit

A budget is 5us at least and at most the period; a period is 100us to 4s. The reservation ends with its thread
(with --group, its process); programs that it starts do not inherit it. Without root you may reserve for your
own tasks, as far as the daemon's limits for users go (docs/reservations.md).

Exit codes: as CMD; 125 if nothing could be reserved for it, 126 or 127 if it could not be started. Otherwise
0 done, 1 refused, 2 wrong usage.";

/// Arguments of `reserve`.
#[derive(clap::Args)]
#[command(
    after_help = RESERVE_EXAMPLES,
    group = ArgGroup::new("what")
        .required(true)
        .args(["command", "process", "tid", "release", "from_trace", "audio"])
)]
pub struct ReserveArgs {
    /// The CPU time in each period (3276.8us, 2ms).
    #[arg(
        long, value_name = "TIME", allow_hyphen_values = true,
        required_unless_present_any = ["release", "from_trace", "real_rate", "audio"]
    )]
    pub budget: Option<String>,
    /// The length of a period (8192us, 10ms).
    #[arg(
        long, value_name = "TIME", allow_hyphen_values = true,
        required_unless_present_any = ["release", "from_trace", "real_rate", "audio"]
    )]
    pub period: Option<String>,
    /// As much time as keeps a pipe of the task half full: budget and period follow it.
    #[arg(long, conflicts_with_all = ["budget", "period", "release", "from_trace", "audio"])]
    pub real_rate: bool,
    /// The descriptor that is this pipe; otherwise standard input and output, where they are pipes.
    #[arg(long, value_name = "FD", requires = "real_rate", conflicts_with_all = ["budget", "period"])]
    pub pipe: Option<u32>,
    /// What becomes of the task when the budget is used up.
    #[arg(long, value_enum, default_value_t = ExhaustionArg::Wait)]
    pub on_exhaustion: ExhaustionArg,
    /// All threads of the process share the budget.
    #[arg(long, conflicts_with_all = ["tid", "release", "from_trace", "audio"])]
    pub group: bool,
    /// Only on this CPU; otherwise on the CPU where the task runs, or else the lowest that has room.
    #[arg(long, value_name = "N", conflicts_with_all = ["release", "from_trace", "audio"])]
    pub cpu: Option<u32>,
    /// For the first thread of this process, or with --group for all its threads.
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub process: Option<u32>,
    /// For this thread.
    #[arg(long, value_name = "TID", value_parser = clap::value_parser!(u32).range(1..))]
    pub tid: Option<u32>,
    /// End the reservation in this slot.
    #[arg(long, value_name = "SLOT", conflicts_with_all = ["budget", "period"])]
    pub release: Option<u32>,
    /// Propose a budget and a period for a task of this trace; `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "task", conflicts_with_all = ["budget", "period"])]
    pub from_trace: Option<PathBuf>,
    /// The task in the trace: a name, a pattern (`play*`), a tid or a tgid.
    #[arg(long, value_name = "PATTERN", requires = "from_trace")]
    pub task: Option<String>,
    /// For the threads of PipeWire's graph, kept current until Ctrl-C; run it as the session's user.
    #[arg(long, conflicts_with_all = ["budget", "period"])]
    pub audio: bool,
    /// With --audio: print an object of JSON a line for what is reserved, refused and released.
    #[arg(long, requires = "audio")]
    pub json: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
    /// A command to run with a reservation.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// What becomes of a task with a used-up budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ExhaustionArg {
    /// It waits for the next period.
    Wait,
    /// It goes on as a task without a reservation until then.
    Demote,
}

impl From<ExhaustionArg> for OnExhaustion {
    fn from(argument: ExhaustionArg) -> OnExhaustion {
        match argument {
            ExhaustionArg::Wait => OnExhaustion::Wait,
            ExhaustionArg::Demote => OnExhaustion::Demote,
        }
    }
}

const RESERVATIONS_EXAMPLES: &str = "\
Examples:
  spry reservations
  spry reservations --watch
  spry reservations --json | jq '.reservations[] | select(.deviation_ns < 0)'

`got` is the CPU time that the tasks had in the periods that are over and in which none of them slept, `asked`
the budgets of these periods; where SCHED_DEADLINE enforces, those of all periods. Without root it shows your
own reservations.";

/// Arguments of `reservations`.
#[derive(clap::Args)]
#[command(after_help = RESERVATIONS_EXAMPLES)]
pub struct ReservationsArgs {
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Again each second, until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub socket: SocketArgs,
}
