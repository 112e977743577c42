//! `spry-eyes`: looks at one display of X11 as the session's own user, and reports its observations to the
//! scheduler's daemon.
//!
//! The daemon is root and parses nothing that a user wrote; it starts one of these for each display that
//! it trusts. RECORD reports the input that clients receive, XInput's raw events the movements of
//! devices, DAMAGE the clients' drawings, and X-Resource the clients' processes. Records of numbers go
//! out through the standard output, a pipe; nothing comes in. One process looks at one server once, and
//! ends when the server ends.
//!
//! Before that, another such process (`seat`) finds out whether a server has a keyboard or a screen, and ends
//! with its answer.

mod book;
mod confine;
mod region;
mod seat;
mod sys;
mod x11;

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use spry_display::Synthetic;
use spry_display::wire::Record;
use spry_policy::Tgid;

use book::Book;
use sys::User;
use x11::DisplayTask;

const USAGE: &str = "usage: spry-eyes display UID DISPLAY LISTENER ignored|trusted | spry-eyes seat TGID";

fn main() -> ExitCode {
    match look() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "spry-eyes: {error:#}: it is started by spry-sched, with a pipe as its standard output"
            );
            ExitCode::FAILURE
        }
    }
}

fn look() -> Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("display") => look_at_display(&task(args).context(USAGE)?),
        Some("seat") => look_for_seat(seat_of(args).context(USAGE)?),
        _ => bail!(USAGE),
    }
}

fn look_at_display(task: &DisplayTask) -> Result<()> {
    confine::enter_cgroup()?;
    confine::become_user(&task.user).context("giving up what eyes do not need")?;
    let line: OwnedFd = std::io::stdout().as_fd().try_clone_to_owned().context("no standard output")?;
    let mut book = Book::new(line);
    let ended = x11::watch(task, &mut book);
    // If the daemon has closed the pipe, it needs no record, so an error is ignored.
    _ = book.tell(Record::Ended(ended));
    Ok(())
}

/// The standard input is a pidfd of the process to look at.
fn look_for_seat(tgid: Tgid) -> Result<()> {
    confine::only_look_into_processes().context("giving up what this does not need")?;
    let seat = seat::of(std::io::stdin().as_fd(), tgid);
    std::io::stdout().write_all(&[seat.into()]).context("telling")?;
    Ok(std::io::stdout().flush()?)
}

/// Reads the arguments: the user to look as, the display, the process that listens at the display's socket,
/// and whether synthetic input counts.
fn task(mut args: impl Iterator<Item = String>) -> Option<DisplayTask> {
    let user = User::of(args.next()?.parse().ok()?);
    let number = args.next()?.parse().ok()?;
    let listener = Tgid(args.next()?.parse().ok()?);
    let synthetic = match args.next()?.as_str() {
        "ignored" => Synthetic::Ignored,
        "trusted" => Synthetic::Trusted,
        _ => return None,
    };
    args.next().is_none().then_some(DisplayTask { user, number, listener, synthetic })
}

fn seat_of(mut args: impl Iterator<Item = String>) -> Option<Tgid> {
    let tgid = Tgid(args.next()?.parse().ok()?);
    args.next().is_none().then_some(tgid)
}
