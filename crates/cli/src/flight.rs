//! `spry record --flight`: the latest seconds in memory, written when something was late.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use spry_recorder::{Happened, Recording, When};

use crate::args::RecordArgs;
use crate::output::say;
use crate::timespan::Timespan;

/// What `--when` says: `latency>US`, or with a unit, of any task or of those of a name.
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

/// A part of the window is recorded on after it has happened, so that its end is seen too.
const AFTER_PART: u32 = 10;
const AFTER_MAX: Duration = Duration::from_secs(1);

/// Waits for it to happen and keeps what led to it.
pub struct Flight<'args> {
    args: &'args RecordArgs,
    window: Duration,
    /// What has happened, and when that is to be written.
    pending: Option<(Happened, Instant)>,
    written: Vec<Value>,
}

impl<'args> Flight<'args> {
    /// `None` where everything is written anyway.
    pub fn new(args: &'args RecordArgs) -> Option<Flight<'args>> {
        let window = args.flight?.duration();
        Some(Flight { args, window, pending: None, written: Vec::new() })
    }

    /// Looks whether it has happened, and writes what was kept when its time has come; whether that was the last.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn look(&mut self, recording: &Recording) -> Result<After> {
        if self.pending.is_none() {
            let after = (self.window / AFTER_PART).min(AFTER_MAX);
            self.pending = recording.happened().map(|happened| (happened, Instant::now() + after));
        }
        match self.pending {
            Some((happened, at)) if Instant::now() >= at => {
                self.pending = None;
                self.write(recording, happened)
            }
            _ => Ok(After::GoOn),
        }
    }

    /// Recording ends: what has happened is written, be it before its time.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn end(&mut self, recording: &Recording) -> Result<()> {
        if let Some((happened, _)) = self.pending.take() {
            let _ = self.write(recording, happened)?;
        }
        if self.written.is_empty() && !self.args.quiet {
            say!("spry: it did not happen; nothing was written");
        }
        Ok(())
    }

    /// What was written, for `--json`.
    pub fn written(&self) -> &[Value] {
        &self.written
    }

    fn write(&mut self, recording: &Recording, happened: Happened) -> Result<After> {
        let path = numbered(&self.args.output, self.written.len() + 1);
        let written =
            recording.keep(&path).with_context(|| format!("cannot keep it in {}", path.display()))?;
        // What happened while this was written is in it, mostly.
        let _ = recording.happened();
        let name = happened.comm.map(|comm| comm.to_string()).unwrap_or_default();
        let latency_ms = happened.latency_ns as f64 / 1e6;
        self.written.push(json!({
            "file": path, "tid": happened.tid, "task": name, "cpu": happened.cpu,
            "latency_ns": happened.latency_ns, "time_ns": happened.time_ns, "events": written.events,
        }));
        if !self.args.quiet {
            say!(
                "spry: {name} ({}) waited {latency_ms:.3} ms for CPU {}: kept {} events in {p}; see spry report {p} --analysis delays --task {}",
                happened.tid,
                happened.cpu,
                written.events,
                happened.tid,
                p = path.display()
            );
        }
        Ok(if self.written.len() >= self.args.times as usize { After::End } else { After::GoOn })
    }
}

/// Whether to wait for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum After {
    /// Yes.
    GoOn,
    /// It has happened as often as was asked for.
    End,
}

/// `trace.spry`, `trace-2.spry`, `trace-3.spry`.
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
    fn a_condition_is_a_latency_in_microseconds_or_with_a_unit_of_all_or_of_some() {
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
