//! The daemon's arguments, which `spry sched run` hands on to it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::tuning::{Tuning, TuningError};

const EXAMPLES: &str = "\
Examples:
  spry-sched run --observe-only     the safe first minute: see `spry top`, change nothing
  spry-sched run                    act; Ctrl-C gives everything back to the kernel's scheduler
  spry sched status                 how it is, and what is in use

Exit codes: 0 ended in order, 1 failed (one line on standard error says why and what to do), 2 wrong usage.";

/// Keep on time what the user is using.
///
/// The daemon follows information from keyboard, mouse and screen through the processes, and has those that
/// it passes through scheduled first.
#[derive(Parser, Debug)]
#[command(name = "spry-sched", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct DaemonArgs {
    /// The subcommand to execute.
    #[command(subcommand)]
    pub command: DaemonCommand,
}

/// What `spry-sched` can do.
#[derive(Subcommand, Debug)]
pub enum DaemonCommand {
    /// Run in the foreground until Ctrl-C, SIGTERM or `spry sched stop`; needs root.
    Run(RunArgs),
}

/// How the daemon is to run.
#[derive(Clone, PartialEq, Debug, Args)]
pub struct RunArgs {
    /// What to act through: sched_ext; what every kernel has (nice, slices, weights); or the best there is.
    #[arg(long, value_enum, default_value_t = ActuatorArg::Auto)]
    pub actuator: ActuatorArg,
    /// The only X display to observe; every local one if not given.
    #[arg(long, value_name = ":N")]
    pub display: Option<String>,
    /// Look and tell, but change nothing.
    #[arg(long)]
    pub observe_only: bool,
    /// What everything that is not in use gets at least, percent of the CPU time of any second.
    #[arg(long, value_name = "P", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub background_share: u8,
    /// Believe input that programs make up (XTEST, XSendEvent): for tests, and for Xvfb, which has no other.
    #[arg(long)]
    pub trust_synthetic: bool,
    /// Believe what this user's programs, or this program of root's, say of themselves and others
    /// (docs/report-interface.md); may be given several times.
    #[arg(long, value_name = "UID|PROGRAM", value_parser = reporter)]
    pub trust_reporter: Vec<String>,
    /// Which rules to follow: the thesis' literally, or with what has been learnt since.
    #[arg(long, value_enum, default_value_t = PolicyArg::Default)]
    pub policy: PolicyArg,
    /// What may be reserved of each CPU, percent (docs/reservations.md).
    #[arg(long, value_name = "P", default_value_t = 90, value_parser = clap::value_parser!(u8).range(1..=95))]
    pub reservable: u8,
    /// What one user without privileges may reserve, percent of one CPU; 0: nothing.
    #[arg(long, value_name = "P", default_value_t = 25, value_parser = clap::value_parser!(u8).range(0..=95))]
    pub user_reservable: u8,
    /// How many reservations one user without privileges may have.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=64))]
    pub user_reservations: u8,
    /// Which shared servers get the rank of the reserved tasks that ask them: those that were named (`spry
    /// ceiling`), or display servers as well.
    #[arg(long, value_enum, default_value_t = CeilingsArg::Displays)]
    pub ceilings: CeilingsArg,
    /// Answer org.freedesktop.RealtimeKit1 on the system bus in rtkit's place, by a process of this user
    /// (docs/reservations.md).
    #[arg(long, value_name = "USER", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "spry-rtkit")]
    pub rtkit: Option<String>,
    /// How often tasks that are not in use can take turns, Hz, 100 to 20000, while they wait for each other
    /// (docs/scheduler.md#tick-and-quantum); `spry tune` changes it.
    #[arg(long, value_name = "N")]
    pub tick_hz: Option<u32>,
    /// How long such a turn is, us, 50 to 100000.
    #[arg(long, value_name = "Q")]
    pub quantum_us: Option<u32>,
    /// How late timers may expire under sched_ext, by the kernel's timer slack: as each thread has it, or by
    /// class (docs/timers.md#timer-slack-by-class).
    #[arg(long, value_enum, default_value_t = TimerSlackArg::Kept)]
    pub timer_slack: TimerSlackArg,
    /// Give a constant of the default policy the thesis' value, to measure what it changes; may be
    /// given several times.
    #[arg(long, value_name = "CONSTANT", hide = true)]
    pub as_thesis: Vec<String>,
    /// The control socket [default: $SPRY_SOCKET, or /run/spry/sched.sock].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// What the daemon acts through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ActuatorArg {
    /// sched_ext where the kernel has it, else `fair`.
    Auto,
    /// The scheduler for sched_ext.
    Scx,
    /// What every kernel has.
    Fair,
}

/// Which shared servers get ceilings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum CeilingsArg {
    /// Only those that root named.
    Named,
    /// Display servers, too.
    Displays,
}

/// Which timer slack threads have under sched_ext.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TimerSlackArg {
    /// What each thread has: the daemon changes none.
    Kept,
    /// 1 us for programs in use, 4 ms for other programs of users 1000 to 60000.
    ByClass,
}

/// Which rules the policy follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PolicyArg {
    /// The thesis', with named departures.
    Default,
    /// The thesis' literally.
    Thesis,
}

impl RunArgs {
    /// The tick and the quantum that were asked for; `None` if neither was given.
    ///
    /// # Errors
    /// If a value is beyond its limits, or if the two do not fit together.
    pub fn tuning(&self) -> Result<Option<Tuning>, TuningError> {
        match (self.tick_hz, self.quantum_us) {
            (None, None) => Ok(None),
            (tick_hz, quantum_us) => Tuning::new(tick_hz, quantum_us).map(Some),
        }
    }

    /// The command-line arguments that give the same values again.
    pub fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        option("--actuator", name_of(&self.actuator));
        option("--background-share", self.background_share.to_string().into());
        option("--policy", name_of(&self.policy));
        option("--reservable", self.reservable.to_string().into());
        option("--user-reservable", self.user_reservable.to_string().into());
        option("--user-reservations", self.user_reservations.to_string().into());
        option("--ceilings", name_of(&self.ceilings));
        option("--timer-slack", name_of(&self.timer_slack));
        if let Some(display) = &self.display {
            option("--display", display.into());
        }
        for reporter in &self.trust_reporter {
            option("--trust-reporter", reporter.into());
        }
        let knobs = [("--tick-hz", self.tick_hz), ("--quantum-us", self.quantum_us)];
        for (name, value) in knobs.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            option(name, value.to_string().into());
        }
        for constant in &self.as_thesis {
            option("--as-thesis", constant.into());
        }
        if let Some(socket) = &self.socket {
            option("--socket", socket.into());
        }
        words.extend(self.rtkit.iter().map(|user| format!("--rtkit={user}").into()));
        let flags = [(self.observe_only, "--observe-only"), (self.trust_synthetic, "--trust-synthetic")];
        words.extend(flags.into_iter().filter(|flag| flag.0).map(|flag| flag.1.into()));
        words
    }
}

/// Takes a user's number or a program's absolute path as it is, and refuses anything else.
fn reporter(text: &str) -> Result<String, String> {
    if text.parse::<u32>().is_ok() || text.starts_with('/') {
        return Ok(text.to_owned());
    }
    Err("say a user's number or a program's whole path".to_owned())
}

fn name_of(value: &impl ValueEnum) -> OsString {
    value.to_possible_value().map(|value| value.get_name().into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        run: RunArgs,
    }

    #[test]
    fn arguments_handed_on_read_back_as_the_same_arguments() {
        let read =
            |words: Vec<OsString>| Command::parse_from([OsString::from("x")].into_iter().chain(words)).run;
        let said = "--actuator fair --display :7 --observe-only --trust-synthetic --trust-reporter 1000 \
                    --policy thesis --reservable 80 --user-reservable 0 --user-reservations 9 \
                    --ceilings named --timer-slack by-class --rtkit=nobody --as-thesis waits --tick-hz 1000 --quantum-us 3000 --socket /x y";
        let said = said.split_inclusive(' ').map(str::trim).map(OsString::from);
        // A socket's name may hold a space.
        let mut said: Vec<OsString> = said.collect();
        let last = said.split_off(said.len() - 2);
        said.push(last.join(" ".as_ref()));
        let args = read(said);
        assert_eq!(args.socket, Some("/x y".into()));
        assert_eq!(read(args.words()), args);
        let bare = read(vec!["--rtkit".into(), "--observe-only".into()]);
        assert_eq!((bare.rtkit.as_deref(), bare.observe_only), (Some("spry-rtkit"), true));
        assert_eq!(read(read(vec![]).words()), read(vec![]));
    }
}
