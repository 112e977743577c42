//! The command `spry record --flight`: the latest seconds stay in memory. They are written to a trace when a
//! condition is met.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use spry_page::words::{count, duration};
use spry_recorder::{FlightEvent, Recording, When};

use crate::args::RecordArgs;
use crate::output::say;
use crate::timespan::Timespan;

/// The condition that the option `--when` gives: `latency>US`, or a time with a unit, for any task or for the
/// tasks with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Condition(pub When);

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let wrong =
            || format!("`{text}` is no condition: say latency>500 (us), latency>2ms, or latency>2ms of NAME");
        let rest = text.trim().strip_prefix("latency").ok_or_else(wrong)?;
        let rest = rest.trim_start().strip_prefix('>').ok_or_else(wrong)?.trim_start();
        let (time, task) = match rest.split_once(" of ") {
            Some((time, task)) => (time.trim(), Some(task.trim().to_owned())),
            None => (rest.trim_end(), None),
        };
        let latency_ns = Timespan::microseconds(time).map_err(|_| wrong())?.ns();
        if task.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Condition(When { latency_ns, task }))
    }
}

/// After the condition is met, recording goes on for the window's length divided by this number, so that the
/// trace shows how the delay ends.
const AFTER_PART: u32 = 10;
const AFTER_MAX: Duration = Duration::from_secs(1);

/// Waits until the condition is met, and writes the events that led to it.
pub struct Flight<'args> {
    args: &'args RecordArgs,
    window: Duration,
    /// The delay that met the condition, and the time at which its trace must be written.
    pending: Option<(FlightEvent, Instant)>,
    written: Vec<Value>,
}

impl<'args> Flight<'args> {
    /// `None` if the option `--flight` is not given: then all events are written to the trace.
    pub fn new(args: &'args RecordArgs) -> Option<Flight<'args>> {
        let window = args.flight?.duration();
        Some(Flight { args, window, pending: None, written: Vec::new() })
    }

    /// Checks whether the condition is met. When the time for a trace has come, writes the events in memory.
    /// Returns whether more traces will follow.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn look(&mut self, recording: &Recording) -> Result<Continuation> {
        if self.pending.is_none() {
            let after = (self.window / AFTER_PART).min(AFTER_MAX);
            self.pending = recording.happened().map(|happened| (happened, Instant::now() + after));
        }
        match self.pending {
            Some((happened, at)) if Instant::now() >= at => {
                self.pending = None;
                self.write(recording, happened)
            }
            _ => Ok(Continuation::GoOn),
        }
    }

    /// Ends the recording. If the condition is met and its trace is not written yet, the trace
    /// is written now.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn end(&mut self, recording: &Recording) -> Result<()> {
        if let Some((happened, _)) = self.pending.take() {
            let _ = self.write(recording, happened)?;
        }
        if self.written.is_empty() && !self.args.quiet {
            say!("spry: it did not happen; nothing was written");
        }
        Ok(())
    }

    /// The traces that were written, for the output of `--json`.
    pub fn written(&self) -> &[Value] {
        &self.written
    }

    fn write(&mut self, recording: &Recording, happened: FlightEvent) -> Result<Continuation> {
        let path = numbered(&self.args.output, self.written.len() + 1);
        let written =
            recording.keep(&path).with_context(|| format!("cannot keep it in {}", path.display()))?;
        // If the condition was met during the write, this is ignored, because most of its events are in this
        // trace.
        let _ = recording.happened();
        let name = happened.comm.map(|comm| comm.to_string()).unwrap_or_default();
        self.written.push(json!({
            "file": path, "tid": happened.tid, "task": name, "cpu": happened.cpu,
            "latency_ns": happened.latency_ns, "time_ns": happened.time_ns, "events": written.events,
        }));
        if !self.args.quiet {
            say!(
                "spry: {name} ({}) waited {} for CPU {}: kept {} events in {p}; see spry report {p} \
                 --analysis delays --task {}",
                happened.tid,
                duration(happened.latency_ns),
                happened.cpu,
                count(written.events),
                happened.tid,
                p = path.display()
            );
        }
        Ok(if self.written.len() >= self.args.times as usize {
            Continuation::End
        } else {
            Continuation::GoOn
        })
    }
}

/// What happens after a trace has been written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Continuation {
    /// The condition may be met again, so the recording goes on.
    GoOn,
    /// The condition was met as often as the user asked for, so the recording ends.
    End,
}

/// The path of a trace with its number: `trace.spry`, `trace-2.spry`, `trace-3.spry`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_latency_with_optional_unit_and_task() {
        let when = |text: &str| text.parse::<Condition>().map(|Condition(when)| (when.latency_ns, when.task));
        assert_eq!(when("latency>500"), Ok((500_000, None)));
        assert_eq!(when("latency > 2ms"), Ok((2_000_000, None)));
        assert_eq!(when("latency>1.5ms of cyclic*"), Ok((1_500_000, Some("cyclic*".to_owned()))));
        for text in ["", "latency", "latency>", "latency<5", "load>5", "latency>5 of ", "latency>x"] {
            assert!(when(text).is_err(), "{text}");
        }
    }

    #[test]
    fn further_files_are_numbered() {
        let name = |number| numbered(Path::new("a/trace.spry"), number).display().to_string();
        assert_eq!([name(1), name(2), name(3)], ["a/trace.spry", "a/trace-2.spry", "a/trace-3.spry"]);
        assert_eq!(numbered(Path::new("trace"), 2), Path::new("trace-2"));
    }
}
