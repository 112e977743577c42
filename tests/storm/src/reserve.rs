//! Reservations in a storm: actors request them from the daemon, for any task of the storm. They note which
//! terms were in force at which times. The checker reads the notes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use spry_control::{Answer, Client, ControlError, Request, ReservationChoice, Reservations};
use spry_reservations::{Covers, OnExhaustion, Terms};
use spry_sys::clock::monotonic_ns;
use spry_sys::process;

use crate::dice::Dice;

/// The files with the actors' notes, and with the daemon's accounts now and then, one line each.
pub const NOTES: &str = "reservations";
pub const ANSWERS: &str = "answers";
const RESULTS: &str = "/results";
const SOCKET: &str = "/run/spry/sched.sock";

/// The first process of a storm with reservations: all tasks of the storm have greater numbers.
static FIRST: OnceLock<u32> = OnceLock::new();

/// From now on, this process and its children also do actions on reservations.
pub fn begin(first: u32) {
    _ = FIRST.set(first);
}

/// The storm's first process, if the storm has reservations.
pub fn first() -> Option<u32> {
    FIRST.get().copied()
}

/// A file among the results, to which lines are appended.
fn results(name: &str) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(format!("{RESULTS}/{name}"))
}

/// Notes a line and the time. An action that cannot be noted is not checked.
pub fn note(text: &str) {
    let line = format!("{} {text}\n", monotonic_ns());
    drop(results(NOTES).and_then(|mut file| file.write_all(line.as_bytes())));
}

/// Random terms: 2 to 25 % of 0.5 to 250 ms.
pub fn terms(dice: &mut Dice) -> Terms {
    let period_ns = (500_000 + dice.below(500_000)) << dice.below(9);
    let budget_ns = period_ns / 1000 * (20 + dice.below(231));
    let on_exhaustion = [OnExhaustion::Wait, OnExhaustion::Demote][dice.below(2) as usize];
    Terms { budget_ns, period_ns, on_exhaustion }
}

/// The calling thread, or any task of the storm.
fn any_task(dice: &mut Dice) -> Option<Covers> {
    let first = first()?;
    if dice.below(3) == 0 {
        return Some(Covers::Thread { tid: process::tid() });
    }
    let tgid = one_of("/proc", first + 1, dice)?;
    if dice.below(4) == 0 {
        return Some(Covers::Group { tgid });
    }
    Some(Covers::Thread { tid: one_of(&format!("/proc/{tgid}/task"), first + 1, dice)? })
}

/// A random number of the numbers in a directory, from `from` on.
fn one_of(directory: &str, from: u32, dice: &mut Dice) -> Option<u32> {
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut all: Vec<u32> = numbers.filter(|&number| number >= from).collect();
    all.sort_unstable();
    let count = u64::try_from(all.len()).ok().filter(|&count| count > 0)?;
    all.get(dice.below(count) as usize).copied()
}

fn ask(request: &Request) -> Result<Answer, ControlError> {
    Client::connect(Path::new(SOCKET))?.ask(request)
}

/// Requests a reservation for any task of the storm, or new terms.
pub fn reserve(dice: &mut Dice, terms: Terms) {
    let Some(covers) = any_task(dice) else { return };
    let number = covers.number();
    note(&format!("asks {number}"));
    match ask(&Request::Reserve { covers, terms, cpu: None }) {
        Ok(Answer::Opened(opened)) => {
            let Terms { budget_ns, period_ns, on_exhaustion } = opened.terms;
            let what = if matches!(covers, Covers::Group { .. }) { "group" } else { "thread" };
            let then = if on_exhaustion == OnExhaustion::Wait { "wait" } else { "demote" };
            note(&format!(
                "has {number} {what} {budget_ns} {period_ns} {then} {} {}",
                opened.cpu, opened.slot
            ));
        }
        other => failed(number, &other),
    }
}

/// Ends the reservation of any task of the storm, or tries to end it.
pub fn release(dice: &mut Dice) {
    let Some(covers) = any_task(dice) else { return };
    let number = covers.number();
    note(&format!("asks {number}"));
    match ask(&Request::Release { which: ReservationChoice::Tid(number) }) {
        Ok(Answer::Done(_)) => note(&format!("released {number}")),
        other => failed(number, &other),
    }
}

/// Notes why a request failed: a refusal is an answer, every other error is a fault.
fn failed(number: u32, answer: &Result<Answer, ControlError>) {
    match answer {
        Err(ControlError::Refused(refusal)) => note(&format!("refused {number} {}", refusal.text)),
        other => note(&format!("fault {number} {other:?}")),
    }
}

/// The daemon's own account of all reservations.
fn account() -> Result<Reservations> {
    let mut client = Client::connect(Path::new(SOCKET)).context("asking the daemon")?;
    client.reservations().context("asking the daemon")
}

/// Keeps the daemon's account for the checker.
///
/// # Errors
/// If the daemon does not answer, or the account cannot be stored.
pub fn keep_account() -> Result<()> {
    let line = serde_json::to_string(&account()?)?;
    writeln!(results(ANSWERS)?, "{} {line}", monotonic_ns()).context("keeping an answer")
}

/// Waits until no reservation is left, for a few seconds. Returns the number left, and the time it took.
///
/// # Errors
/// If the daemon does not answer.
pub fn wait_for_none() -> Result<(usize, Duration)> {
    let begin = Instant::now();
    loop {
        let left = account()?.reservations.len();
        if left == 0 || begin.elapsed() > Duration::from_secs(5) {
            return Ok((left, begin.elapsed()));
        }
        thread::sleep(Duration::from_millis(10));
    }
}
