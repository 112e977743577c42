//! The commands `spry reserve` and `spry reservations`.

mod audio;
mod propose;
mod table;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use spry_control::{
    Answer, Client, Covers, OnExhaustion, OpenedReservation, Request, ReservationChoice, Terms,
};
use spry_reservations::{BUDGET_MIN_NS, PERIOD_MAX_NS, PERIOD_MIN_NS, exact_us};

use crate::args::{ReservationsArgs, ReserveArgs};
use crate::exit::{self, CodedError, become_program};
use crate::output::{self, say};
use crate::timespan::Timespan;
use crate::top;

/// How often `--watch` shows the reservations.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The codes that clear a terminal and move to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Reserves time, releases it, or proposes a reservation.
pub fn run(args: &ReserveArgs) -> Result<ExitCode> {
    let socket = args.socket.path();
    if args.audio {
        let form = if args.json { audio::Form::Json } else { audio::Form::Text };
        return audio::run(&socket, form);
    }
    if let (Some(trace), Some(task)) = (&args.from_trace, &args.task) {
        return propose::run(trace, task);
    }
    if let Some(slot) = args.release {
        let request = Request::Release { which: ReservationChoice::Slot(slot) };
        return match Client::connect(&socket)?.ask(&request)? {
            Answer::Done(done) => {
                output::print(&(top::plain(&done.text) + "\n"))?;
                Ok(ExitCode::SUCCESS)
            }
            _ => bail!(unexpected()),
        };
    }
    let asked =
        ReservationRequest::of(args).map_err(|text| CodedError::wrap(exit::WRONG_USAGE, anyhow!(text)))?;
    if args.command.is_empty() {
        let covers = covers(args).context("nothing is named for which time is to be reserved")?;
        let opened = reserve(&socket, &asked.request(covers, args.cpu))?;
        output::print(&(account(&opened, covers) + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let own = std::process::id();
    let covers = if args.group { Covers::Group { tgid: own } } else { Covers::Thread { tid: own } };
    let opened = reserve(&socket, &asked.request(covers, args.cpu))
        .map_err(|error| CodedError::wrap(exit::RESERVING_FAILED, error))?;
    say!("spry: {}", account(&opened, covers));
    Err(become_program(&args.command))
}

/// Shows the reservations.
pub fn list(args: &ReservationsArgs) -> Result<ExitCode> {
    let mut client = Client::connect(&args.socket.path())?;
    let clear = if io::stdout().is_terminal() && !args.json { CLEAR } else { "" };
    loop {
        let reservations = client.reservations()?;
        let text =
            if args.json { serde_json::to_string(&reservations)? + "\n" } else { table::text(&reservations) };
        if !args.watch {
            output::print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        output::print(&format!("{clear}{text}"))?;
        sleep(WATCH_EVERY);
    }
}

fn covers(args: &ReserveArgs) -> Option<Covers> {
    match (args.tid, args.process) {
        (Some(tid), _) => Some(Covers::Thread { tid }),
        (None, Some(tgid)) if args.group => Some(Covers::Group { tgid }),
        (None, Some(tid)) => Some(Covers::Thread { tid }),
        (None, None) => None,
    }
}

/// The budget and the period that were given, if they are within the limits.
fn terms(args: &ReserveArgs) -> Result<Terms, String> {
    let time = |name: &str, text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        let time: Result<Timespan, String> = text.parse();
        time.map(Timespan::ns).map_err(|why| format!("--{name}: {why}; {}", limits()))
    };
    let (budget_ns, period_ns) = (time("budget", &args.budget)?, time("period", &args.period)?);
    let terms = Terms { budget_ns, period_ns, on_exhaustion: args.on_exhaustion.into() };
    terms.check().map(|()| terms).map_err(|refused| refused.to_string())
}

fn limits() -> String {
    let (least, most) = (exact_us(PERIOD_MIN_NS), PERIOD_MAX_NS / 1_000_000_000);
    let budget = exact_us(BUDGET_MIN_NS);
    format!("a budget is at least {budget} and at most the period, a period {least} to {most}s")
}

/// The request: fixed terms, or terms that follow a pipe.
enum ReservationRequest {
    Terms(Terms),
    RealRate { on_exhaustion: OnExhaustion, pipe: Option<u32> },
}

impl ReservationRequest {
    fn of(args: &ReserveArgs) -> Result<ReservationRequest, String> {
        match args.real_rate {
            true => {
                Ok(ReservationRequest::RealRate { on_exhaustion: args.on_exhaustion.into(), pipe: args.pipe })
            }
            false => terms(args).map(ReservationRequest::Terms),
        }
    }

    const fn request(&self, covers: Covers, cpu: Option<u32>) -> Request {
        match *self {
            ReservationRequest::Terms(terms) => Request::Reserve { covers, terms, cpu },
            ReservationRequest::RealRate { on_exhaustion, pipe } => {
                Request::RealRate { covers, on_exhaustion, pipe, cpu }
            }
        }
    }
}

fn reserve(socket: &Path, request: &Request) -> Result<OpenedReservation> {
    match Client::connect(socket)?.ask(request)? {
        Answer::Opened(opened) => Ok(opened),
        _ => bail!(unexpected()),
    }
}

fn unexpected() -> &'static str {
    "the scheduler daemon answered something else; are it and this program of the same version?"
}

/// A reservation in one line: `3276.8us of every 8192us on CPU 0 for thread 4711 (slot 0, by deadline); ...`.
fn account(opened: &OpenedReservation, covers: Covers) -> String {
    let Terms { budget_ns, period_ns, on_exhaustion } = opened.terms;
    let who = match covers {
        Covers::Thread { tid } => format!("thread {tid}"),
        Covers::Group { tgid } => format!("process {tgid}"),
    };
    let then = match on_exhaustion {
        OnExhaustion::Wait => "waits when it is used up",
        OnExhaustion::Demote => "goes on without it when it is used up",
    };
    let mut line = format!(
        "{} of every {} on CPU {} for {who}, which {then} (slot {}, by {})",
        exact_us(budget_ns),
        exact_us(period_ns),
        opened.cpu,
        opened.slot,
        opened.enforcer
    );
    for note in &opened.notes {
        line += "; ";
        line += note;
    }
    top::plain(&line)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command as Subcommand};

    fn parsed(words: &str) -> Result<ReserveArgs, clap::Error> {
        let words = ["spry", "reserve"].into_iter().chain(words.split_whitespace());
        Args::try_parse_from(words).map(|args| match args.command {
            Subcommand::Reserve(args) => args,
            _ => panic!("another command"),
        })
    }

    fn terms_of(words: &str) -> Result<(u64, u64), String> {
        let args = parsed(words).expect("the words fit together");
        terms(&args).map(|terms| (terms.budget_ns, terms.period_ns))
    }

    #[test]
    fn budgets_and_periods_may_have_fractions_of_a_microsecond() {
        assert_eq!(terms_of("--budget 3276.8us --period 8192us -- true"), Ok((3_276_800, 8_192_000)));
        assert_eq!(terms_of("--budget 102.4us --period 0.512ms --tid 7"), Ok((102_400, 512_000)));
    }

    #[test]
    fn a_refused_reservation_is_one_line_with_the_limits() {
        for wrong in [
            "0 --period 1ms",
            "-1us --period 1ms",
            "2ms --period 1ms",
            "1us --period 99us",
            "1ms --period 5s",
            "x --period 1ms",
            "1ms --period -1",
        ] {
            let said = terms_of(&format!("--budget {wrong} --pid 7")).unwrap_err();
            let has_limits = said.contains("at most the period") || said.contains("100us to");
            assert!(said.lines().count() == 1 && has_limits, "{said}");
        }
    }

    #[test]
    fn one_thing_at_a_time_is_asked() {
        for wrong in [
            "--budget 1ms --period 2ms",
            "--budget 1ms --tid 7",
            "--budget 1ms --period 2ms --tid 7 --pid 8",
            "--budget 1ms --period 2ms --tid 7 -- true",
            "--budget 1ms --period 2ms --tid 7 --group",
            "--release 3 --tid 7",
            "--from-trace x",
            "--real-rate",
            "--real-rate --budget 1ms --tid 7",
            "--pipe 3 --budget 1ms --period 2ms --tid 7",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        for right in [
            "--release 3",
            "--from-trace x --task y",
            "--budget 1ms --period 2ms --group --pid 8",
            "--real-rate --pipe 3 --pid 8",
            "--real-rate -- cat",
        ] {
            assert!(parsed(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn a_reservation_is_one_line() {
        let terms = Terms { budget_ns: 3_276_800, period_ns: 8_192_000, on_exhaustion: OnExhaustion::Wait };
        let notes = vec!["a note".to_owned()];
        let opened = OpenedReservation { slot: 3, cpu: 1, terms, enforcer: "deadline".to_owned(), notes };
        assert_eq!(
            account(&opened, Covers::Thread { tid: 7 }),
            "3276.8us of every 8192us on CPU 1 for thread 7, which waits when it is used up (slot 3, by deadline); a note"
        );
    }
}
