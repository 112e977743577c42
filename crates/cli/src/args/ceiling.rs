//! Arguments of the subcommand `ceiling`.

use clap::ArgGroup;

use super::SocketArgs;

const EXAMPLES: &str = "\
Examples:
  sudo spry ceiling --pid $(pidof Xorg)              the display server's main thread, bound by measurement
  sudo spry ceiling --pid 4711 --bound 1ms           1 ms in each of the shortest of its clients' periods
  sudo spry ceiling --pid 4711 --group               all threads of the server
  sudo spry ceiling --end 4711                       it is a task like others again
  sudo spry reservations                             its clients, what requests took, how often too long

A server that is named gets the rank of the tasks with reservations that ask it, from the second after their
first request on, and up to its bound: beyond that it goes on in the class that it has otherwise, until the
period ends. The bound counts as reserved. Without --bound it is a little more than what was measured, at most
a tenth of a CPU. Display servers need not be named (docs/reservations.md).

Exit codes: 0 done, 1 refused, 2 wrong usage.";

/// Arguments of `ceiling`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("which").required(true).args(["process", "tid", "end"]))]
pub struct CeilingArgs {
    /// The first thread of this process serves, or with --group all its threads do.
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub process: Option<u32>,
    /// This thread serves.
    #[arg(long, value_name = "TID", value_parser = clap::value_parser!(u32).range(1..))]
    pub tid: Option<u32>,
    /// All threads of the process serve, and share the bound.
    #[arg(long, conflicts_with_all = ["tid", "end"])]
    pub group: bool,
    /// The most that it may take by its rank in a period (1ms, 250us).
    #[arg(long, value_name = "TIME", conflicts_with = "end")]
    pub bound: Option<String>,
    /// This thread or process is no shared server any more.
    #[arg(long, value_name = "N")]
    pub end: Option<u32>,
    #[command(flatten)]
    pub socket: SocketArgs,
}
