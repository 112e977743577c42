//! Finds the delays of a process in a trace, and their causes.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result};
use spry_analysis::findings::{Delay, Delays, Party};
use spry_analysis::{Engine, Options, Progress, Selection, TaskPattern, TraceTotals};
use spry_control::Explanation;
use spry_page::words::duration;
use spry_report::text::{Style, Tone};
use spry_report::words::{cause_of_delays, culprits, most_blame, plain, sentence, unknown};

use crate::source;

/// The greatest number of delays that are printed.
const TOLD_MAX: usize = 5;

/// The delays of one process in a trace.
pub struct ProcessDelays {
    /// The longest waits of the process' threads, and the tasks that delayed the process most.
    pub delays: Delays,
    /// A line about waits that the trace does not show; `None` if it shows all.
    pub unknown: Option<String>,
    /// Whether the trace has an event of the process.
    pub presence: Presence,
}

/// Whether a trace has an event of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    Seen,
    Absent,
}

/// The line about a process without an event in the trace.
const ABSENT: &str = "The trace has no event of this process.";

impl ProcessDelays {
    /// Lines about what the trace lacks for the delays of the process.
    pub fn notes(&self) -> Vec<&str> {
        let absent = (self.presence == Presence::Absent).then_some(ABSENT);
        absent.into_iter().chain(self.unknown.as_deref()).collect()
    }
}

/// Finds the delays of a process, and the tasks that caused them.
pub fn find(trace: &Path, tgid: u32) -> Result<ProcessDelays> {
    let (mut reader, bytes) = source::open(trace, 0)?;
    let selection = Selection { tasks: Some(TaskPattern::Number(tgid)), from_ns: 0, to_ns: None };
    let options = Options { analyses: vec!["delays".to_owned()], ..Options::default() };
    let mut engine = Engine::new(reader.header(), selection, options)?;
    source::read(&mut reader, bytes, |stamped| {
        Ok(match engine.push(stamped) {
            Progress::More => ControlFlow::Continue(()),
            Progress::Enough => ControlFlow::Break(()),
        })
    })
    .with_context(|| source::name_of(trace))?;
    let totals = TraceTotals { bytes, end_ns: Some(reader.totals().end_ns), ..TraceTotals::default() };
    let findings = engine.finish(totals);
    let unknown = unknown(&findings.trace, &findings.cpus);
    let presence = if findings.tasks.is_empty() { Presence::Absent } else { Presence::Seen };
    Ok(ProcessDelays { delays: findings.delays.unwrap_or_default(), unknown, presence })
}

/// The delays in words. `standing` asks the daemon whether the task that caused a delay is in use; without a
/// daemon there is no answer.
pub fn say(
    delayed: &ProcessDelays,
    trace: &Path,
    explanation: Option<&Explanation>,
    standing: &mut impl FnMut(u32) -> Option<Explanation>,
    style: Style,
) -> String {
    let mut text = style.heading(&format!("What delayed it, by {}", source::name_of(trace)));
    let ProcessDelays { delays, unknown, presence } = delayed;
    delayed.notes().into_iter().for_each(|line| text += &style.wrap(Tone::Bad, 0, line));
    if *presence == Presence::Absent {
        return text;
    }
    let Some(worst) = delays.worst.first() else {
        let none = match unknown {
            Some(_) => "None of its threads was seen to wait for a CPU there.",
            None => "Nothing: none of its threads waited for a CPU there.",
        };
        return text + &style.wrap(Tone::Good, 0, none);
    };
    text += &style.wrap(Tone::Plain, 0, &late_because(worst, explanation, standing));
    for delay in delays.worst.iter().take(TOLD_MAX) {
        text += &style.wrap(Tone::Plain, 2, &sentence(delay));
    }
    if let Some(blame) = most_blame(&delays.blame) {
        let most = match &blame.culprit {
            Party::Task(who) => format!("{} ({})", plain(&who.comm.to_string()), who.tgid),
            cause => cause_of_delays(cause),
        };
        let line = format!(
            "In all it lost most to {most}: {} in {} {}.",
            duration(blame.total_ns),
            blame.waits,
            if blame.waits == 1 { "wait" } else { "waits" }
        );
        text += &style.wrap(Tone::Plain, 0, &line);
    }
    text
}

/// A delay and its cause in words, such as `Late by 31.2 ms because hog 3321 ran 29.0 ms (not in use); in
/// use because of ...`.
fn late_because(
    worst: &Delay,
    explanation: Option<&Explanation>,
    standing: &mut impl FnMut(u32) -> Option<Explanation>,
) -> String {
    let culprit = worst.culprits.iter().find_map(|culprit| match &culprit.party {
        Party::Task(who) => Some(who),
        _ => None,
    });
    // The kernel may have given the number of the delaying process to another process since then.
    let found =
        culprit.and_then(|who| standing(who.tgid.0).filter(|found| found.task.comm == who.comm.to_string()));
    let theirs = match found {
        Some(found) if found.in_use => {
            let level = found.task.level.map_or_else(String::new, |level| format!(", level {level}"));
            format!(" (in use itself{level})")
        }
        Some(_) => " (not in use)".to_owned(),
        None => String::new(),
    };
    let own = match explanation {
        Some(explanation) if explanation.in_use => {
            let way: Vec<String> = explanation.task.path.iter().map(|step| plain(&step.name)).collect();
            format!("; in use because of {}", way.join(" > "))
        }
        Some(_) => "; not in use itself".to_owned(),
        None => String::new(),
    };
    format!("Late by {} because {}{theirs}{own}.", duration(worst.wait_ns), culprits(worst))
}
