//! `timers` on a terminal: how late timers were handled.

use spry_analysis::findings::Findings;
use spry_page::words::{count, duration};
use spry_trace::event::TimerKind;

use super::or_dash;
use super::style::{Style, Table, Tone};

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let mut table = Table::new("timer", &["count", "mean late", "p50", "p99", "max", "past slack", "early"]);
    for timer in findings.timers.as_ref()? {
        let summary = timer.lateness.summary();
        table.row([
            timer_name(timer.kind).to_owned(),
            count(timer.lateness.count()),
            or_dash(summary, |summary| duration(summary.mean.round() as u64)),
            or_dash(summary, |summary| duration(summary.p50)),
            or_dash(summary, |summary| duration(summary.p99)),
            or_dash(summary, |summary| duration(summary.max)),
            count(timer.past_slack),
            count(timer.early),
        ]);
    }
    let legend = "late: after the deadline; past slack: after the latest time that timer slack allows";
    Some(table.render(style) + &style.wrap(Tone::Faint, 2, legend))
}

/// A kind of timer in words.
pub(crate) fn timer_name(kind: TimerKind) -> &'static str {
    match kind {
        TimerKind::Sleep => "sleep or time-out",
        TimerKind::Timerfd => "timerfd",
        TimerKind::Posix => "POSIX timer",
        TimerKind::Itimer => "interval timer",
        TimerKind::Wheel => "kernel time-out",
        TimerKind::Other => "other",
    }
}
