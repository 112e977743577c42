//! The scheduler under test: the guest starts it, waits until it is in charge, and checks that it
//! stays in charge.

use std::fs;
use std::process::ExitStatus;

use spry_experiment::scheduler::Sign;
use spry_lab::protocol::{Failure, RESULTS_DIRECTORY, SCHEDULER_LOG};

use crate::kernel::{messages_with, sleep_until, uptime_ms};
use crate::process::{self, Child, Waiter, exit_or_signal};

const STATE: &str = "/sys/kernel/sched_ext/state";
/// The interval at which the guest checks whether a scheduler that loads is in charge, milliseconds.
const LOOK_EVERY_MS: u64 = 100;
/// How many of the last lines of the scheduler's output a failure contains.
const LINES: usize = 20;

/// A scheduler under test that is in charge.
pub struct Scheduler {
    child: Child,
    sign: Sign,
}

impl Scheduler {
    /// Starts a scheduler's program and waits until the sign shows that the scheduler is in charge.
    pub fn start(argv: &[String], sign: Sign, limit_ms: u64, waiter: &mut Waiter) -> Result<Self, Failure> {
        if sign == Sign::SchedExt && fs::metadata(STATE).is_err() {
            return Err(Failure::SchedulerFailed("this kernel has no sched_ext".to_owned()));
        }
        let log = log();
        let child = process::start(argv, &[], &log, &log)
            .map_err(|error| Failure::SchedulerFailed(format!("cannot start it: {error}")))?;
        let until_ms = uptime_ms() + limit_ms;
        loop {
            if sign.is_seen() {
                return Ok(Self { child, sign });
            }
            if let Some(status) = waiter.ended(child) {
                return Err(Failure::SchedulerFailed(last_words(&ending(status))));
            }
            if uptime_ms() >= until_ms {
                process::kill_group(child);
                let how = format!("it was not in charge after {} s", limit_ms / 1000);
                return Err(Failure::SchedulerFailed(last_words(&how)));
            }
            sleep_until(uptime_ms() + LOOK_EVERY_MS);
        }
    }

    /// Fails if the scheduler is no longer in charge.
    pub fn check(&self, waiter: &mut Waiter) -> Result<(), Failure> {
        if let Some(status) = waiter.ended(self.child) {
            return Err(Failure::SchedulerEjected(last_words(&ending(status))));
        }
        if self.sign.is_seen() {
            return Ok(());
        }
        let how = match self.sign {
            Sign::SchedExt => format!("sched_ext is {}", state()),
            Sign::Socket => "its socket is gone".to_owned(),
        };
        Err(Failure::SchedulerEjected(last_words(&how)))
    }
}

fn log() -> String {
    format!("{RESULTS_DIRECTORY}/{SCHEDULER_LOG}")
}

fn state() -> String {
    fs::read_to_string(STATE).unwrap_or_default().trim().to_owned()
}

fn ending(status: ExitStatus) -> String {
    match exit_or_signal(status) {
        (Some(exit), _) => format!("its program ended with status {exit}"),
        (None, signal) => format!("its program was killed by signal {}", signal.unwrap_or_default()),
    }
}

/// The end of the program's output, and the kernel's messages about the scheduler.
fn last_words(how: &str) -> String {
    let said =
        fs::read(log()).map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into_owned());
    let lines: Vec<&str> = said.lines().collect();
    let said = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let parts = [how, &said, &messages_with("sched_ext")].map(str::to_owned);
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}
