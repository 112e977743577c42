//! The command `spry ceiling`: names shared servers.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use spry_control::{Answer, Client, Covers, Request};

use crate::args::CeilingArgs;
use crate::exit::{self, CodedError};
use crate::output;
use crate::timespan::Timespan;
use crate::top;

/// Names a shared server, or ends its rank as a shared server.
pub fn run(args: &CeilingArgs) -> Result<ExitCode> {
    let request = request(args).map_err(|error| CodedError::wrap(exit::WRONG_USAGE, error))?;
    match Client::connect(&args.socket.path())?.ask(&request)? {
        Answer::Done(done) => output::print(&(top::plain(&done.text) + "\n"))?,
        _ => bail!(
            "the scheduler daemon answered something else; are it and this program of the same version?"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

fn request(args: &CeilingArgs) -> Result<Request> {
    if let Some(number) = args.end {
        return Ok(Request::ServeNoMore { number });
    }
    let covers = match (args.tid, args.process) {
        (Some(tid), _) => Covers::Thread { tid },
        (None, Some(tgid)) if args.group => Covers::Group { tgid },
        (None, Some(tid)) => Covers::Thread { tid },
        (None, None) => bail!("no server is named"),
    };
    Ok(Request::Serve { covers, bound_ns: args.bound.as_deref().map(bound).transpose()? })
}

fn bound(text: &str) -> Result<u64> {
    let time: Result<Timespan, String> = text.parse();
    let bound_ns = time.map_err(|why| anyhow!("--bound: {why}")).map(Timespan::ns)?;
    (bound_ns > 0).then_some(bound_ns).context("--bound: a bound is more than 0")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn asked(words: &str) -> Result<Request> {
        let words = ["spry", "ceiling"].into_iter().chain(words.split_whitespace());
        match Args::try_parse_from(words)?.command {
            Command::Ceiling(args) => request(&args),
            _ => panic!("another command"),
        }
    }

    #[test]
    fn a_thread_or_process_names_a_server_with_or_without_a_bound() {
        let thread = Covers::Thread { tid: 7 };
        let bounded = Request::Serve { covers: thread, bound_ns: Some(250_000) };
        assert_eq!(asked("--pid 7 --bound 250us").unwrap(), bounded);
        assert_eq!(asked("--tid 7").unwrap(), Request::Serve { covers: thread, bound_ns: None });
        let all = Covers::Group { tgid: 7 };
        assert_eq!(asked("--pid 7 --group").unwrap(), Request::Serve { covers: all, bound_ns: None });
        assert_eq!(asked("--end 7").unwrap(), Request::ServeNoMore { number: 7 });
        for wrong in ["", "--tid 7 --pid 7", "--tid 7 --group", "--pid 7 --bound 0", "--end 7 --bound 1ms"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
