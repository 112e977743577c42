//! The command `spry explain`: why a process is in use, or why it is not, and what delayed it.

mod delayed;
mod why;

use std::env;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use spry_control::{Client, ControlError, Explanation};

use crate::args::ExplainArgs;
use crate::output::{self, say};
use crate::top;

pub use self::why::{Ink, why};

/// Asks the daemon, reads the trace, and prints the results of both.
pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let mut client = match Client::connect(&args.socket.path()) {
        Ok(client) => Some(client),
        // The trace shows what delayed the process. For that no daemon is needed.
        Err(ControlError::NoDaemon(_)) if args.trace.is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let explanation = match client.as_mut().map(|client| client.explain(args.tgid)) {
        Some(Ok(explanation)) => Some(explanation),
        // The process may have ended since the trace was recorded.
        Some(Err(ControlError::Refused(refusal))) if args.trace.is_some() => {
            say!("spry: {}", top::plain(&refusal.text));
            None
        }
        Some(Err(error)) => return Err(error.into()),
        None => None,
    };
    let delayed = args.trace.as_ref().map(|trace| delayed::find(trace, args.tgid)).transpose()?;
    if args.json {
        let mut whole =
            explanation.map_or(Ok(Value::Object(serde_json::Map::new())), serde_json::to_value)?;
        if let Some(delayed) = &delayed {
            whole["delays"] = serde_json::to_value(&delayed.delays)?;
            whole["trace_notes"] = serde_json::to_value(delayed.notes())?;
        }
        output::print(&(serde_json::to_string(&whole)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = output::style(&args.text);
    let mut text = match &explanation {
        Some(explanation) => why(explanation, style, ink()),
        None => style.wrap(
            spry_report::text::Tone::Faint,
            0,
            "Why it is in use, or not, only the running daemon knows (`spry sched run`); \
             this is from the trace alone.",
        ),
    };
    if let (Some(delayed), Some(trace)) = (&delayed, &args.trace) {
        text += "\n";
        text += &delayed::say(delayed, trace, explanation.as_ref(), &mut standing(client.as_mut()), style);
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the daemon about any process: whether it is in use, and why.
fn standing(mut client: Option<&mut Client>) -> impl FnMut(u32) -> Option<Explanation> {
    move |tgid| client.as_mut()?.explain(tgid).ok()
}

/// The characters for lines and arrows that this terminal can show.
pub fn ink() -> Ink {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    if locale.contains("utf-8") || locale.contains("utf8") { Ink::Lines } else { Ink::Ascii }
}
