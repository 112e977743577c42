//! Findings for a terminal: a summary that fits a screen, and each analysis in detail.

mod billing;
mod cpu;
mod delays;
mod dispatch;
mod graph;
mod ipc;
mod marks;
mod quanta;
mod reasons;
mod stolen;
mod style;
mod summary;
mod timers;
mod wakeup;

use spry_analysis::findings::{Findings, TaskFinding};
use spry_trace::Group;

pub use self::style::{Colour, Style, Tone};
pub use self::summary::summary;
pub(crate) use self::timers::timer_name;

/// How many rows the longest tables have.
const ROWS_MAX: usize = 40;

type Render = fn(&Findings, Style) -> Option<String>;

/// Every analysis with a page of its own: name, needed group beside `sched`, renderer.
const PAGES: [(&str, Option<Group>, Render); 12] = [
    ("delays", None, delays::render),
    ("dispatch", None, dispatch::render),
    ("quanta", None, quanta::render),
    ("billing", None, billing::render),
    ("reasons", None, reasons::render),
    ("cpu", None, cpu::render),
    ("wakeup", None, wakeup::render),
    ("stolen", Some(Group::Irq), stolen::render),
    ("timers", Some(Group::Timer), timers::render),
    ("graph", None, graph::render),
    ("ipc", Some(Group::Ipc), ipc::render),
    ("marks", Some(Group::Mark), marks::render),
];

/// The page of the analysis of that name; `None` if there is no such analysis.
pub fn analysis(name: &str, findings: &Findings, style: Style) -> Option<String> {
    let &(_, group, render) = PAGES.iter().find(|page| page.0 == name)?;
    let body = render(findings, style).unwrap_or_else(|| {
        let why = match group.filter(|&group| !findings.trace.groups.contains(group)) {
            Some(group) => format!(
                "The trace lacks the events of group `{0}`: record with --events sched,{0}.",
                group.name()
            ),
            None if findings.analyses.contains(&name) => "The trace lacks the events for it.".to_owned(),
            None => "This analysis did not run.".to_owned(),
        };
        style.wrap(Tone::Plain, 2, &why)
    });
    Some(style.heading(name) + &body + &unknown(findings, style) + &losses(findings, style))
}

/// The names that [`analysis`] accepts, in order.
pub fn analyses() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|page| page.0)
}

/// The line about lost events, which is on every page: to leave it out would claim that nothing was lost.
fn losses(findings: &Findings, style: Style) -> String {
    let trace = &findings.trace;
    if trace.lost == 0 {
        return style.paint(Tone::Good, "  No event was lost.") + "\n";
    }
    style.wrap(Tone::Bad, 2, &format!("Events lost: {}.", crate::words::losses(trace)))
}

/// The line about waits and wakers that the trace lacks; empty if it lacks none.
fn unknown(findings: &Findings, style: Style) -> String {
    let line = crate::words::unknown(&findings.trace, &findings.cpus);
    line.map_or_else(String::new, |line| style.wrap(Tone::Bad, 2, &line))
}

/// A figure, or a dash where the trace does not give it.
fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

/// The tasks that a table shows, and a line with the number of tasks left out.
fn shown(findings: &Findings, rows: usize) -> (&[TaskFinding], String) {
    let tasks = &findings.tasks;
    let left = tasks.len().saturating_sub(rows);
    let note = if left > 0 {
        format!("  and {} more tasks\n", spry_page::words::count(left as u64))
    } else {
        String::new()
    };
    (&tasks[..tasks.len().min(rows)], note)
}
