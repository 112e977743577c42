//! `spry-rtkit`: answers org.freedesktop.RealtimeKit1 on the system bus, in rtkit's place.
//!
//! The daemon is root and reads no bus; it starts this process, which drops all privileges before it reads
//! a byte from the bus. Each request for a thread goes to the daemon as five numbers, through a socket that
//! is the standard input. The daemon checks all of them itself. The user and the process of a caller are
//! taken from the bus.

mod answer;
mod bus;
mod confine;
mod wire;

use std::env;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rustix::net::{RecvFlags, SendFlags};
use spry_control::rtkit::{
    ANSWER_MAX, Bursts, DaemonAnswer, ExitReason, FrontRequest, Outcome, REQUEST, RequestKind,
};
use spry_sys::clock::monotonic_ns;
use spry_sys::poll;

use answer::{Call, Failure, NAME};
use bus::{Bus, NameRefusal};
use wire::{Message, OutgoingMessage, Values};

const USAGE: &str = "usage: spry-rtkit UID GID, started by spry-sched, with a socket as its standard input";

fn main() -> ExitCode {
    match front() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spry-rtkit: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn front() -> Result<()> {
    let mut args = env::args().skip(1).map(|word| word.parse::<u32>());
    let (Some(Ok(uid)), Some(Ok(gid)), None) = (args.next(), args.next(), args.next()) else {
        anyhow::bail!(USAGE);
    };
    confine::become_user(uid, gid).context("giving up what this does not need")?;
    let line = io::stdin().as_fd().try_clone_to_owned().context("no standard input")?;
    let address = env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
    let Ok(stream) = bus::connect(address.as_deref()) else {
        return end(&line, ExitReason::NoBus);
    };
    confine::only_answer()?;
    let why = answer_calls(stream, uid, &line);
    end(&line, why)
}

/// Reports to the daemon why this process ends.
fn end(line: &OwnedFd, why: ExitReason) -> Result<()> {
    let last = FrontRequest { what: RequestKind::End, uid: 0, tgid: 0, tid: why as u32, nice: 0 };
    // If the daemon has ended, no report is needed.
    _ = rustix::net::send(line, &<[u8; REQUEST]>::from(last), SendFlags::NOSIGNAL);
    Ok(())
}

/// Answers calls until the bus or the daemon ends.
fn answer_calls(stream: UnixStream, uid: u32, line: &OwnedFd) -> ExitReason {
    let Ok(mut bus) = Bus::greet(stream, uid) else { return ExitReason::NoBus };
    match bus.take_name(NAME) {
        Ok(Ok(())) => {}
        Ok(Err(NameRefusal::Taken)) => return ExitReason::Taken,
        Ok(Err(NameRefusal::Denied)) => return ExitReason::Denied,
        Err(_) => return ExitReason::Broken,
    }
    let mut front = Front { bus, line, bursts: Bursts::default() };
    match front.serve() {
        Ok(()) | Err(_) => ExitReason::Broken,
    }
}

struct Front<'a> {
    bus: Bus,
    line: &'a OwnedFd,
    bursts: Bursts,
}

impl Front<'_> {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            while let Some(message) = self.bus.next_call()? {
                self.answer(&message)?;
            }
            let mut polls = [poll::readable(&self.bus), poll::readable(self.line)];
            poll::wait(&mut polls, None)?;
            // The daemon sends only answers, and none is due here: an event means that the daemon has ended.
            if !polls[1].revents().is_empty() {
                return Ok(());
            }
        }
    }

    fn answer(&mut self, message: &Message) -> io::Result<()> {
        let outcome = match answer::call(message) {
            Ok(Call::Answered(values)) => Ok(values),
            Ok(call) => self.hand_on(&message.sender, &call)?.map(|()| Values::default()),
            Err(failure) => Err(failure),
        };
        if !message.is_awaited {
            return Ok(());
        }
        match outcome {
            Ok(values) => self.bus.send(OutgoingMessage::Return { to: message }, &values)?,
            Err(Failure { name, text }) => {
                let name = format!("org.freedesktop.DBus.Error.{name}");
                self.bus.send(
                    OutgoingMessage::Error { to: message, name: &name },
                    &Values::default().text(&text),
                )?
            }
        };
        Ok(())
    }

    /// Passes a request on to the daemon. A user's requests beyond a burst are refused here.
    fn hand_on(&mut self, sender: &str, call: &Call) -> io::Result<Result<(), Failure>> {
        let Some(caller) = self.bus.caller(sender)? else {
            return Ok(Err(answer::denied("the bus does not tell which process asks")));
        };
        let asked = match answer::asked(call, caller) {
            Ok(Some(asked)) => asked,
            Ok(None) => return Ok(Ok(())),
            Err(failure) => return Ok(Err(failure)),
        };
        if caller.uid != 0 && !self.bursts.take(caller.uid, monotonic_ns()) {
            return Ok(Err(answer::denied("more than 25 requests in 20 s: ask again later")));
        }
        rustix::net::send(self.line, &<[u8; REQUEST]>::from(asked), SendFlags::NOSIGNAL)?;
        let mut bytes = [0; ANSWER_MAX];
        let (count, _) = rustix::net::recv(self.line, &mut bytes[..], RecvFlags::empty())?;
        let Ok(DaemonAnswer { outcome, text }) = DaemonAnswer::try_from(&bytes[..count]) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(match outcome {
            Outcome::Done => Ok(()),
            Outcome::Denied => Err(answer::denied(&text)),
            Outcome::Failed => Err(answer::failed(&text)),
        })
    }
}
