//! Arguments of the subcommand `slack`.

use std::ffi::OsString;

use clap::ArgGroup;

const EXAMPLES: &str = "\
Examples:
  spry slack --overshoot 5ms -- ./indexer       its sleeps and polls end up to 5 ms late, with others' timers
  spry slack --overshoot 0 -- ./metronome       no slack: each timer ends as exactly as the kernel can
  sudo spry slack --pid 4711                    the slack of each thread of a process
  sudo spry slack --overshoot 1ms --pid 4711    set it for all threads of a process that runs
  sudo spry slack --default --pid 4711          what each thread had when it was started

The kernel lets a timer expire up to its slack late, so that one wake-up serves several timers. An ordinary
thread has 50us. The slack covers sleeps and waits with a time limit (nanosleep, poll, select, epoll, futex).
It does not cover timerfd, timer_settime and setitimer, nor threads of real-time classes. The command keeps
it, and so do the programs and threads that it starts. A new thread of a running process has the slack of the
thread that starts it.

Exit codes: as CMD; 125 if the slack could not be set, 126 or 127 if CMD could not be started. Otherwise
0 done, 1 refused, 2 wrong usage.";

/// Arguments of `slack`.
#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("which").required(true).args(["process", "command"])
)]
pub struct SlackArgs {
    /// How late timers may expire, 0 to 10s (100us, 5ms).
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        required_unless_present = "process",
        conflicts_with = "default"
    )]
    pub overshoot: Option<String>,
    /// For all threads of this process; needs root. Without a time, show what they have.
    #[arg(long = "pid", value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub process: Option<u32>,
    /// Give each thread of the process the slack that it was started with.
    #[arg(long, requires = "process")]
    pub default: bool,
    /// Say what was set, or what the threads have, as JSON.
    #[arg(long)]
    pub json: bool,
    /// A command to start with this slack.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
