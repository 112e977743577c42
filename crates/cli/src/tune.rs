//! The command `spry tune`: sets knobs of the kernel's own classes while a command runs.

pub mod daemon;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use serde_json::json;
use signal_hook::consts::SIGHUP;
use spry_control::{Client, State};
use spry_sys::settle::{Setting as AtBirth, settle};
use spry_sys::signal::{self, Sender, Signals};
use spry_sys::{Signal, poll, process};
use spry_tune::{AppliedPlan, Back, Class, Kernel, Knob, Plan, Reach, Scope, TuneError, Value, Wish};

use crate::args::{Quantum, TuneArgs, TuneClassArg};
use crate::exit::{self, CodedError};
use crate::output::say;
use crate::stopping;
use crate::timespan::us;

/// The form in which results are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// Sets the knobs, runs the command, and gives the knobs back.
pub fn run(args: &TuneArgs) -> Result<ExitCode> {
    let kernel = Kernel::default();
    let form = if args.json { Form::Json } else { Form::Text };
    if args.restore {
        return restore(&kernel, form);
    }
    let failed = |error: Error| CodedError::wrap(exit::TUNING_FAILED, error);
    if args.command.is_empty() {
        return daemon::run(args);
    }
    let class = class_of_command(args.class).map_err(|error| CodedError::wrap(exit::WRONG_USAGE, error))?;
    let wish = wish(args, class).map_err(coded)?;
    refuse_beside_daemon(&wish, &args.socket.path()).map_err(failed)?;
    let signals = signals().map_err(failed)?;
    let plan = Plan::of(&wish, &kernel).map_err(coded)?;
    let tuned = AppliedPlan::new(plan, &kernel).map_err(coded)?;
    tell(&tuned, form);
    let ended = spawn(&args.command, &tuned).and_then(|child| watch(child, &signals).map_err(failed));
    let backs = tuned.give_back().map_err(coded);
    // An error of the command matters more than the results of giving the knobs back.
    let status = ended?;
    tell_return(&backs?, form);
    Ok(code_of(status))
}

fn coded(error: TuneError) -> Error {
    let code = if error.is_wrong_usage() { exit::WRONG_USAGE } else { exit::TUNING_FAILED };
    CodedError::wrap(code, error.into())
}

/// The class of the kernel's that gets the quantum while a command runs.
fn class_of_command(class: Option<TuneClassArg>) -> Result<Class> {
    match class.unwrap_or(TuneClassArg::Fair).quantum() {
        Quantum::Kernel(class) => Ok(class),
        Quantum::Daemon(class) => bail!(
            "the quantum of the class {class} is the scheduler daemon's, for all of its tasks and not for a \
             command: leave the command out"
        ),
        Quantum::None(reason) => bail!(reason),
    }
}

fn wish(args: &TuneArgs, class: Class) -> Result<Wish, TuneError> {
    Ok(Wish {
        quantum_us: args.quantum_us.as_deref().map(spry_tune::quantum_us).transpose()?,
        tick_hz: args.tick_hz.as_deref().map(spry_tune::tick_hz).transpose()?,
        class,
        reach: if args.all { Reach::Machine } else { Reach::Command },
    })
}

/// Fails if the scheduler's daemon acts without sched_ext, since it gives slices itself. If it acts through
/// sched_ext, the kernel shows this in a file, which `Plan::of` reads.
fn refuse_beside_daemon(wish: &Wish, socket: &Path) -> Result<()> {
    let is_fair = wish.quantum_us.is_some() && wish.class == Class::Fair;
    if !is_fair || !socket.exists() {
        return Ok(());
    }
    match Client::connect(socket).and_then(|mut client| client.status()) {
        Ok(status) if status.acting.state == State::Acting && status.actuator == "fair" => {
            bail!("the scheduler daemon gives ordinary tasks their slices: end it first (`spry sched stop`)")
        }
        // Without an answer there is no daemon that gives slices.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The signals that end the command: the command gets them, and the knobs are given back when it has ended.
fn signals() -> Result<Signals> {
    let mut ends = vec![Signal::INT, Signal::QUIT, Signal::TERM];
    // Under nohup the command outlives its terminal.
    if !stopping::is_ignored(SIGHUP) {
        ends.push(Signal::HUP);
    }
    Signals::of(&ends).context("cannot listen to signals")
}

fn spawn(command: &[OsString], tuned: &AppliedPlan) -> Result<Child> {
    let [program, arguments @ ..] = command else { bail!("no command") };
    let mut command = Command::new(program);
    let mut settings = vec![AtBirth::UnblockedSignals];
    settings.extend(tuned.settings_of_command());
    settle(command.args(arguments), settings).spawn().map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => exit::NOT_FOUND,
            _ => exit::CANNOT_START,
        };
        let what = format!("cannot start {}", program.to_string_lossy());
        CodedError::wrap(code, Error::new(error).context(what))
    })
}

/// Waits until the command has ended. Signals that a process sends are passed on; the command gets signals of
/// the terminal itself.
fn watch(mut child: Child, signals: &Signals) -> Result<ExitStatus> {
    let ended = process::open(child.id()).context("cannot watch the command")?;
    while !poll::any([ended.as_fd(), signals.as_fd()], Duration::MAX)[0] {
        while let Some((number, sender)) = signals.take() {
            match sender {
                Sender::Kernel => {}
                // A child that has not been waited for keeps its number.
                Sender::Process => drop(signal::send_number(child.id(), number)),
            }
        }
    }
    child.wait().context("cannot wait for the command")
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(code as u8)
}

/// Gives back the knobs that killed runs have left.
fn restore(kernel: &Kernel, form: Form) -> Result<ExitCode> {
    let backs = spry_tune::restore(&kernel.state)?;
    if backs.is_empty() && form == Form::Text {
        say!("spry: nothing was left");
    }
    match form {
        Form::Json => tell_return(&backs, form),
        Form::Text => backs.iter().for_each(|back| say!("spry: {}", back_in_words(back))),
    }
    let has_failed = backs.iter().any(|back| matches!(back, Back::Failed(..)));
    if has_failed { Err(anyhow!("not everything could be given back")) } else { Ok(ExitCode::SUCCESS) }
}

/// Prints the knobs that were set.
fn tell(tuned: &AppliedPlan, form: Form) {
    match form {
        Form::Json => say!("{}", json!({ "knobs": tuned.knobs(), "notes": tuned.notes() })),
        Form::Text => {
            tuned.knobs().iter().for_each(|knob| say!("spry: {}", in_words(knob)));
            tuned.notes().iter().for_each(|note| say!("spry: {note}"));
        }
    }
}

/// Prints the results of giving the knobs back; as text, only the knobs that did not get their old values.
fn tell_return(backs: &[Back], form: Form) {
    match form {
        Form::Json => say!("{}", json!({ "given_back": backs })),
        Form::Text => {
            let is_as_before = |back: &&Back| matches!(back, Back::Restored(_) | Back::Held(_));
            let others = backs.iter().filter(|back| !is_as_before(back));
            others.for_each(|back| say!("spry: {}", back_in_words(back)));
        }
    }
}

fn in_words(knob: &Knob) -> String {
    let of = match knob.scope {
        Scope::Command => "of the command",
        Scope::Machine => "of the machine",
    };
    let value = |value| match value {
        Value::Ns(ns) => us(ns),
        Value::Hz(hz) => format!("{hz} Hz"),
        Value::On => "on".to_owned(),
        Value::Off => "off".to_owned(),
    };
    let until = match (knob.scope, knob.before == knob.now) {
        (Scope::Command, _) => "",
        (Scope::Machine, true) => ", as it was",
        (Scope::Machine, false) => ", until the command ends",
    };
    format!("{} {of}: {} → {}{until}", knob.name, value(knob.before), value(knob.now))
}

fn back_in_words(back: &Back) -> String {
    match back {
        Back::Restored(setting) => format!("{} is {} again", setting.path, setting.value),
        Back::Held(setting) => format!("{} is held by another run: {}", setting.path, setting.value),
        Back::Changed(setting) => {
            format!("{} was changed meanwhile and stays {}", setting.path, setting.value)
        }
        Back::Failed(setting, why) => {
            format!("cannot set {} back to {}: {why}", setting.path, setting.value)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command as Subcommand};

    fn parsed(words: &str) -> Result<TuneArgs, clap::Error> {
        let words = ["spry", "tune"].into_iter().chain(words.split_whitespace());
        Args::try_parse_from(words).map(|args| match args.command {
            Subcommand::Tune(args) => args,
            _ => panic!("another command"),
        })
    }

    #[test]
    fn a_command_and_a_knob_are_asked_for() {
        for wrong in [
            "-- true",
            "--class rr -- true",
            "--all -- true",
            "--all --quantum-us 500",
            "--default --tick-hz 1000",
            "--default -- true",
            "--restore -- true",
            "--restore --quantum-us 500",
            "--quantum-us 500 --class fifo -- true",
            "--quantum-us 500 --class idle --class interactive",
            "--class idle",
            "--class idle --tick-hz 1000",
            "--default --class idle -- true",
            "--all",
            "--json -- true",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        for right in [
            "--quantum-us 500 -- true",
            "--quantum-us 500 --tick-hz 1000 -- true",
            "--tick-hz 1000 -- true",
            "--class rr --quantum-us 500 --json -- true",
            "--all --quantum-us 500 -- make -j8 --all",
            "--restore --json",
            "--quantum-us 500 --tick-hz 20000",
            "--default",
            "--default --class idle",
            "--quantum-us 500 --class interactive",
            "",
            "--json",
        ] {
            assert!(parsed(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn a_quantum_and_a_tick_are_read_or_wrong_usage() {
        let wish_of = |words: &str| {
            let args = parsed(words).expect("the words fit together");
            wish(&args, class_of_command(args.class).expect("a class of the kernel's"))
        };
        let read = wish_of("--class rr --quantum-us 1000 --tick-hz 250 -- true").expect("it can be");
        let robin = Wish {
            quantum_us: Some(1000),
            tick_hz: Some(250),
            class: Class::RoundRobin,
            reach: Reach::Command,
        };
        assert_eq!(read, robin);
        for wrong in ["--quantum-us -1 -- true", "--quantum-us 49 -- true", "--tick-hz 50000 -- true"] {
            assert!(wish_of(wrong).is_err_and(|error| error.is_wrong_usage()), "{wrong}");
        }
    }

    #[test]
    fn a_command_has_no_quantum_of_a_class_of_the_daemon_s() {
        use TuneClassArg::{Daemon, Fair, Idle, Interactive, Kthread, Reserved, Rr};
        let class = |class| class_of_command(class).map_err(|error| error.to_string());
        assert_eq!([None, Some(Fair)].map(class), [Ok(Class::Fair), Ok(Class::Fair)]);
        assert_eq!(class(Some(Rr)), Ok(Class::RoundRobin));
        for asked in [Interactive, Idle, Reserved, Daemon, Kthread] {
            let said = class(Some(asked)).expect_err("it cannot be");
            let name = format!("{asked:?}").to_lowercase();
            assert!(said.contains(&format!("class {name}")) && said.lines().count() == 1, "{said}");
        }
        let other = parsed("--class other --quantum-us 500").expect("a name of the fair class");
        assert_eq!(other.class, Some(Fair));
    }

    #[test]
    fn a_knob_is_one_line() {
        let knob = |name, scope, before, now| in_words(&Knob { name, scope, before, now });
        assert_eq!(
            knob("slice", Scope::Command, Value::Ns(700_000), Value::Ns(3_000_000)),
            "slice of the command: 700 us → 3000 us"
        );
        assert_eq!(
            knob("HRTICK", Scope::Machine, Value::Off, Value::On),
            "HRTICK of the machine: off → on, until the command ends"
        );
        assert_eq!(
            knob("tick", Scope::Machine, Value::Hz(250), Value::Hz(250)),
            "tick of the machine: 250 Hz → 250 Hz, as it was"
        );
    }
}
