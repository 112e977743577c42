//! The command `spry sched`: starts the scheduler's daemon, and asks it for its status.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use spry_control::{Answer, Client, Request, RunArgs, State, Status, TimerSlack};
use spry_page::words::{duration, percent, span};

use crate::args::{SchedArgs, SchedCommand, SocketArgs};
use crate::{output, top, tune};

/// The program of the daemon.
const DAEMON: &str = "spry-sched";

/// Runs a subcommand of `spry sched`.
pub fn run(args: &SchedArgs) -> Result<ExitCode> {
    match &args.command {
        SchedCommand::Run(args) => start(args),
        SchedCommand::Status(args) => {
            let status = Client::connect(&args.socket.path())?.status()?;
            let text = if args.json { serde_json::to_string(&status)? + "\n" } else { account(&status) };
            output::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        SchedCommand::Stop(socket) => tell(socket, Request::Stop),
        SchedCommand::Set(args) => {
            tell(&args.socket, Request::Set { tgid: args.tgid, class: args.class.into() })
        }
    }
}

/// Replaces this process by the daemon, so that the parent of this process has the daemon
/// itself as its child.
fn start(args: &RunArgs) -> Result<ExitCode> {
    let program = daemon().ok_or_else(|| {
        anyhow!(
            "{DAEMON} is neither beside this program nor on the path: install it, \
             or build it with `cargo build --release -p spry-scheduler`"
        )
    })?;
    let error = Command::new(&program).arg("run").args(args.words()).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

fn daemon() -> Option<PathBuf> {
    let own = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = own.into_iter().chain(env::split_paths(&path)).map(|directory| directory.join(DAEMON));
    places.find(|file| file.is_file())
}

fn tell(socket: &SocketArgs, request: Request) -> Result<ExitCode> {
    match Client::connect(&socket.path())?.ask(&request)? {
        Answer::Done(done) => output::print(&(top::plain(&done.text) + "\n"))?,
        _ => bail!(
            "the scheduler daemon answered something else; are it and this program of the same version?"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// The daemon's status in words, followed by the table of `spry top`.
fn account(status: &Status) -> String {
    let mut lines = vec![
        format!(
            "{}, for {} (process {}, version {})",
            doing(status),
            span(status.uptime_s),
            status.tgid,
            top::plain(&status.version)
        ),
        rounds(status),
    ];
    lines.extend(cost(status));
    lines.extend(tune::daemon::lines(status));
    lines.extend(status.timer_slack.map(timer_slack));
    for device in &status.devices {
        let server = device.tgid.map_or_else(String::new, |tgid| format!(" (process {tgid})"));
        let line = format!("{} {}{server}: {}", device.kind, device.name, device.state);
        lines.push(top::plain(&line));
    }
    if let Some(ejection) = &status.acting.ejected {
        lines.push(top::plain(&format!(
            "the kernel took the scheduler out {} ago: {}",
            span(ejection.ago_s),
            ejection.reason
        )));
    }
    lines.extend(status.warnings.iter().map(|warning| top::plain(&format!("warning: {warning}"))));
    lines.join("\n") + "\n\n" + &top::once(status, output::columns(None))
}

/// The daemon's rounds in words, as far as the daemon reports them: `rounds: 12 regular, 3 early, 0 missed;
/// the latest took 0.21 ms, the longest 0.40 ms`.
fn rounds(status: &Status) -> String {
    let rounds = &status.rounds;
    let early = rounds.early.map_or_else(String::new, |early| format!("{early} early, "));
    let mut text = format!("rounds: {} regular, {early}{} missed", rounds.regular, rounds.missed);
    if let Some(longest_ns) = rounds.longest_ns {
        let took = status.policy_ns_last.map_or_else(|| "none yet".to_owned(), duration);
        let longest = duration(longest_ns);
        text += &format!("; the latest took {took}, the longest {longest}");
    }
    if let Some(longest_ns) = status.housekeeping_ns_longest {
        text += &format!("; in the kernel housekeeping took {} at most", duration(longest_ns));
    }
    text
}

/// The daemon's CPU time, and the dependencies that it ignores; `None` if it does not report them.
fn cost(status: &Status) -> Option<String> {
    let (share, lost_edges) = (status.daemon_cpu_share?, status.lost_edges?);
    let share = percent(share);
    Some(format!("the daemon takes {share} of a CPU; {lost_edges} dependencies were not counted"))
}

/// Timer slack by class in words.
fn timer_slack(slack: TimerSlack) -> String {
    format!(
        "timer slack: {} for {} threads in use, {} for {} threads of other programs",
        duration(slack.in_use_ns),
        slack.in_use_threads,
        duration(slack.background_ns),
        slack.background_threads
    )
}

/// What the daemon is doing, in words.
pub fn doing(status: &Status) -> String {
    match (status.acting.state, status.acting.retry_in_s) {
        (State::Observing, _) => "looking only, nothing is changed".to_owned(),
        (State::Acting, _) => format!("in charge through {}", top::plain(&status.actuator)),
        (State::Ejected, Some(wait_s)) => {
            format!("taken out by the kernel, tasks are with its own scheduler; next try in {}", span(wait_s))
        }
        (State::Ejected, None) => {
            "taken out by the kernel too often; tasks are with its own scheduler: restart the daemon"
                .to_owned()
        }
    }
}
