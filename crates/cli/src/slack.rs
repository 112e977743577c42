//! The command `spry slack`: how late the timers of a command or a process may expire.

use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use spry_tune::slack::{self, OVERSHOOT_NS_MAX, Slack, ThreadSlack};

use crate::args::SlackArgs;
use crate::exit::{self, CodedError, become_program};
use crate::output::{self, say};
use crate::timespan::{Timespan, us};

/// Starts a command with a slack, or shows or sets that of a process.
pub fn run(args: &SlackArgs) -> Result<ExitCode> {
    let wished = args.overshoot.as_deref().map(overshoot_ns).transpose();
    let wished_ns = wished.map_err(|error| CodedError::wrap(exit::WRONG_USAGE, error))?;
    match (args.process, wished_ns) {
        (Some(tgid), _) => {
            let wished = wished_ns.map(Slack::Overshoot).or(args.default.then_some(Slack::Default));
            let threads = slack::of_process(tgid, wished)?;
            let text =
                if args.json { json!({ "threads": threads }).to_string() + "\n" } else { table(&threads) };
            output::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        (None, Some(ns)) => {
            let (before_ns, now_ns) =
                slack::set_own(ns).map_err(|error| CodedError::wrap(exit::TUNING_FAILED, error.into()))?;
            if args.json {
                say!("{}", json!({ "asked_ns": ns, "before_ns": before_ns, "now_ns": now_ns }));
            } else {
                say!("spry: timer slack of the command: {} \u{2192} {}", us(before_ns), us(now_ns));
            }
            if now_ns == 0 && !args.json {
                say!("spry: the command runs in a real-time class, and its timers have no slack there");
            }
            Err(become_program(&args.command))
        }
        (None, None) => bail!("neither a command nor a process is named"),
    }
}

fn overshoot_ns(text: &str) -> Result<u64> {
    let time: Result<Timespan, String> = text.parse();
    let ns = time.map_err(|why| anyhow!("--overshoot: {why}")).map(Timespan::ns)?;
    if ns > OVERSHOOT_NS_MAX {
        bail!("--overshoot: {text} is too long: an overshoot is 0 to {}s", OVERSHOOT_NS_MAX / 1_000_000_000);
    }
    Ok(ns)
}

/// A line a thread.
fn table(threads: &[ThreadSlack]) -> String {
    let line = |thread: &ThreadSlack| {
        let name = crate::top::plain(&thread.name);
        let is_same = thread.before_ns == thread.now_ns;
        let was = if is_same { String::new() } else { format!("   (was {})", us(thread.before_ns)) };
        format!("{:>8}  {name:<15}  {:>14}{was}\n", thread.tid, us(thread.now_ns))
    };
    let head = format!("{:>8}  {:<15}  {:>14}\n", "TID", "NAME", "TIMER SLACK");
    head + &threads.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn parsed(words: &str) -> Result<SlackArgs, clap::Error> {
        let words = ["spry", "slack"].into_iter().chain(words.split_whitespace());
        Args::try_parse_from(words).map(|args| match args.command {
            Command::Slack(args) => args,
            _ => panic!("another command"),
        })
    }

    #[test]
    fn a_command_needs_a_time_and_a_process_does_not() {
        for right in [
            "--overshoot 5ms -- true",
            "--pid 7",
            "--overshoot 0 --pid 7",
            "--default --pid 7",
            "--pid 7 --json",
        ] {
            assert!(parsed(right).is_ok(), "{right}");
        }
        for wrong in [
            "",
            "-- true",
            "--overshoot 5ms",
            "--default -- true",
            "--overshoot 5ms --pid 7 -- true",
            "--overshoot 5ms --default --pid 7",
            "--pid 0",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_overshoot_that_cannot_be_is_one_line_with_the_limits() {
        assert_eq!(overshoot_ns("100us").expect("it can be"), 100_000);
        assert_eq!(overshoot_ns("0").expect("it can be"), 0);
        assert_eq!(overshoot_ns("10s").expect("it can be"), OVERSHOOT_NS_MAX);
        for (wrong, words) in [("10.001s", "0 to 10s"), ("-1ms", "is no time"), ("soon", "is no time")] {
            let said = overshoot_ns(wrong).expect_err("it cannot be").to_string();
            assert!(
                said.contains(words) && said.contains("--overshoot") && said.lines().count() == 1,
                "{said}"
            );
        }
    }

    #[test]
    fn a_thread_is_one_line_with_what_it_had_before() {
        let thread =
            |name: &str, before_ns, now_ns| ThreadSlack { tid: 7, name: name.to_owned(), before_ns, now_ns };
        let text = table(&[thread("a\u{1b}[2J", 50_000, 1_000_000), thread("b", 1, 1)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("1000 us   (was 50 us)") && !text.contains('\u{1b}'), "{text}");
        assert!(lines[2].ends_with(" 0.001 us"), "{text}");
    }
}
