//! Reserves CPU time for the program that links to this library: a budget in every period, from Spry's
//! daemon (docs/reservations.md).
//!
//! ```no_run
//! use std::time::Duration;
//! use spry_reserve::{Reservation, Terms};
//!
//! let terms = Terms::new(Duration::from_millis(2), Duration::from_millis(10));
//! let reservation = match Reservation::for_this_thread(terms) {
//!     Ok(reservation) => Some(reservation),
//!     Err(why) => {
//!         eprintln!("playing without a reservation: {why}");
//!         None
//!     }
//! };
//! // Work, and sleep until the next period.
//! if let Some(state) = reservation.as_ref().and_then(|reservation| reservation.state().ok()) {
//!     println!("{} periods, {:?} of {:?}", state.periods, state.got, state.asked);
//! }
//! ```
//!
//! The reservation ends when it is dropped, or with its thread or process. `include/spry-reserve.h` declares
//! the interface for C.

mod ask;
mod c;

use std::fmt;
use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use ask::ask;

/// The socket on which the daemon listens unless the variable `SPRY_SOCKET` names another.
pub const SOCKET_DEFAULT: &str = "/run/spry/sched.sock";
/// The environment variable that names the daemon's socket.
pub const SOCKET_VARIABLE: &str = "SPRY_SOCKET";

/// What a thread does when its budget is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExhaustion {
    /// The thread waits for the next period.
    #[default]
    Wait,
    /// The thread goes on as a thread without a reservation until the next period.
    Demote,
}

/// How much CPU time, and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The CPU time in each period: more than 0, and at most the period.
    pub budget: Duration,
    /// The length of a period: 100 us to 4 s.
    pub period: Duration,
    /// What the thread does when the budget is used up.
    pub on_exhaustion: OnExhaustion,
}

impl Terms {
    /// A budget in each period. When the budget is used up, the thread waits for the next period.
    pub const fn new(budget: Duration, period: Duration) -> Terms {
        Terms { budget, period, on_exhaustion: OnExhaustion::Wait }
    }

    /// The same terms with another behaviour when the budget is used up.
    #[must_use]
    pub const fn on_exhaustion(self, on_exhaustion: OnExhaustion) -> Terms {
        Terms { on_exhaustion, ..self }
    }
}

/// Why nothing is reserved. It is one sentence for the user.
#[derive(Debug)]
pub enum Error {
    /// No daemon listens.
    NoDaemon(PathBuf),
    /// The daemon's socket is closed to this user.
    Denied(PathBuf),
    /// The daemon refuses; the text gives the CPU time that is left and the budget that would fit.
    Refused(String),
    /// The daemon gave an answer that does not belong to the question.
    Unexpected,
    /// The reservation has ended.
    Ended,
    /// The connection broke, or there is no `/proc`.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDaemon(socket) => write!(
                f,
                "no scheduler daemon is running (no answer at {}): start one with `spry sched run`",
                socket.display()
            ),
            Error::Denied(socket) => write!(
                f,
                "{} does not let you in: ask as root, or as a member of the socket's group",
                socket.display()
            ),
            Error::Refused(text) => f.write_str(text),
            Error::Unexpected => f.write_str(
                "the scheduler daemon answered something else; are it and this library of the same version?",
            ),
            Error::Ended => f.write_str("the reservation has ended"),
            Error::Io(error) => write!(f, "the scheduler daemon cannot be asked: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// A reservation, and how much CPU time its threads got since it was opened. An unknown value is
/// `None`, never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// The number by which `spry reservations` shows it.
    pub slot: u32,
    /// The CPU on which the time is reserved.
    pub cpu: u32,
    /// How many periods have ended.
    pub periods: u64,
    /// The CPU time that the threads had.
    pub got: Duration,
    /// The budgets of these periods together.
    pub asked: Duration,
    /// The CPU time beyond `asked`, ns; negative if the threads had less.
    pub deviation_ns: i64,
    /// The time that interrupts took from the threads.
    pub stolen: Option<Duration>,
    /// The number of periods in which the budget was used up.
    pub exhausted: Option<u64>,
    /// The largest shortfall in one period for a thread that was ready to use its whole budget.
    pub worst_short: Option<Duration>,
    /// The longest delay of the beginning of a period.
    pub worst_late: Option<Duration>,
}

/// Which threads a reservation covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Covers {
    /// One thread, by its tid.
    Thread(u32),
    /// All threads of a process, by its tgid; they share the budget.
    Process(u32),
}

impl Covers {
    fn number(self) -> u32 {
        match self {
            Covers::Thread(number) | Covers::Process(number) => number,
        }
    }

    fn to_json(self) -> Value {
        match self {
            Covers::Thread(tid) => json!({ "thread": { "tid": tid } }),
            Covers::Process(tgid) => json!({ "group": { "tgid": tgid } }),
        }
    }
}

/// A reservation of the thread or the process that opened it. It cannot move to another thread, since the
/// kernel gives the number of an ended thread to new threads.
#[derive(Debug)]
pub struct Reservation {
    covers: Covers,
    stays: PhantomData<*const ()>,
}

impl Reservation {
    /// Reserves time for the calling thread.
    ///
    /// # Errors
    /// If no daemon listens, or it refuses.
    pub fn for_this_thread(terms: Terms) -> Result<Reservation, Error> {
        let (_, tid) = own_numbers()?;
        Reservation::open(Covers::Thread(tid), terms)
    }

    /// Reserves time for all threads of this process, which share the budget and run on one CPU.
    ///
    /// # Errors
    /// As [`Reservation::for_this_thread`].
    pub fn for_this_process(terms: Terms) -> Result<Reservation, Error> {
        let (tgid, _) = own_numbers()?;
        Reservation::open(Covers::Process(tgid), terms)
    }

    fn open(covers: Covers, terms: Terms) -> Result<Reservation, Error> {
        reserve(covers, terms)?;
        Ok(Reservation { covers, stays: PhantomData })
    }

    /// Gives the reservation new terms. If they are refused, the old ones hold.
    ///
    /// # Errors
    /// As [`Reservation::for_this_thread`].
    pub fn set(&mut self, terms: Terms) -> Result<(), Error> {
        reserve(self.covers, terms)
    }

    /// The reservation, and how much CPU time its threads got.
    ///
    /// # Errors
    /// [`Error::Ended`] if the daemon no longer lists the reservation.
    pub fn state(&self) -> Result<State, Error> {
        let answer = ask(&json!({ "ask": "reservations" }))?;
        let all = answer["reservations"]["reservations"].as_array().ok_or(Error::Unexpected)?;
        let covers = self.covers.to_json();
        let own = all.iter().find(|one| one["covers"] == covers).ok_or(Error::Ended)?;
        state(own).ok_or(Error::Unexpected)
    }

    /// Ends the reservation. Dropping it ends it, too, but reports no error.
    ///
    /// # Errors
    /// If no daemon listens any more, or the reservation had ended.
    pub fn release(self) -> Result<(), Error> {
        let covers = self.covers;
        std::mem::forget(self);
        release(covers)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // A reservation that cannot be released ends with its thread.
        _ = release(self.covers);
    }
}

fn reserve(covers: Covers, terms: Terms) -> Result<(), Error> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let on_exhaustion = match terms.on_exhaustion {
        OnExhaustion::Wait => "wait",
        OnExhaustion::Demote => "demote",
    };
    let answer = ask(&json!({
        "ask": "reserve",
        "covers": covers.to_json(),
        "budget_ns": ns(terms.budget),
        "period_ns": ns(terms.period),
        "on_exhaustion": on_exhaustion,
    }))?;
    if answer["opened"].is_object() { Ok(()) } else { Err(Error::Unexpected) }
}

fn release(covers: Covers) -> Result<(), Error> {
    let answer = ask(&json!({ "ask": "release", "tid": covers.number() }))?;
    if answer["done"].is_object() { Ok(()) } else { Err(Error::Unexpected) }
}

fn state(own: &Value) -> Option<State> {
    let number = |name: &str| own[name].as_u64();
    let small = |name: &str| u32::try_from(own[name].as_u64()?).ok();
    let time = |name: &str| own[name].as_u64().map(Duration::from_nanos);
    Some(State {
        slot: small("slot")?,
        cpu: small("cpu")?,
        periods: number("periods")?,
        got: time("got_ns")?,
        asked: time("asked_ns")?,
        deviation_ns: own["deviation_ns"].as_i64()?,
        stolen: time("stolen_ns"),
        exhausted: number("exhausted"),
        worst_short: time("worst_short_ns"),
        worst_late: time("worst_late_ns"),
    })
}

/// The numbers of this process and of the calling thread.
fn own_numbers() -> io::Result<(u32, u32)> {
    let link = fs::read_link("/proc/thread-self")?;
    let mut parts = link.to_str().unwrap_or_default().split('/');
    let numbers =
        (parts.next().and_then(|tgid| tgid.parse().ok()), parts.nth(1).and_then(|tid| tid.parse().ok()));
    match numbers {
        (Some(tgid), Some(tid)) => Ok((tgid, tid)),
        _ => Err(io::Error::other("/proc/thread-self names no thread")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_own_number_and_its_process() {
        let (tgid, tid) = own_numbers().expect("there is /proc");
        assert_eq!(tgid, std::process::id());
        let (other_tgid, other_tid) = std::thread::spawn(own_numbers).join().unwrap().unwrap();
        assert_eq!(other_tgid, tgid);
        assert_ne!(other_tid, tid);
    }

    #[test]
    fn null_or_absent_fields_of_a_reservation_are_none() {
        let line = r#"{"slot":3,"cpu":1,"periods":10,"got_ns":5,"asked_ns":7,"deviation_ns":-2,
                       "stolen_ns":null,"exhausted":4,"worst_late_ns":9}"#;
        let state = state(&serde_json::from_str(line).unwrap()).expect("all is there");
        assert_eq!((state.slot, state.periods, state.deviation_ns), (3, 10, -2));
        assert_eq!((state.stolen, state.worst_short), (None, None));
        assert_eq!((state.exhausted, state.worst_late), (Some(4), Some(Duration::from_nanos(9))));
        assert_eq!(super::state(&json!({ "slot": 3 })), None);
    }
}
