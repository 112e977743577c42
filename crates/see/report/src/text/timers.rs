//! `timers` on a terminal: the lateness of timers, and the periodic wake-ups that ticks would skip.

use spry_analysis::findings::Findings;
use spry_page::words::{count, duration, percent};
use spry_trace::event::TimerKind;

use super::style::{Style, Table, Tone};
use super::{ROWS_MAX, or_dash};
use crate::words;

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
    Some(table.render(style) + &style.wrap(Tone::Faint, 2, legend) + &frames(findings, style))
}

/// The periodic wake-ups, with the share that ticks would skip; empty if there are none.
fn frames(findings: &Findings, style: Style) -> String {
    let Some(list @ [_, ..]) = findings.frames.as_deref() else { return String::new() };
    let columns = ["ticks", "skipped", "at least", "at most", "period", "count"];
    let mut table = Table::new("woken periodically", &columns);
    for frames in list.iter().take(ROWS_MAX / 4) {
        for (at, skipped) in frames.skipped.iter().enumerate() {
            let once = |text: String| if at == 0 { text } else { String::new() };
            table.row([
                once(words::who(&frames.who)),
                format!("{} Hz", count(u64::from(skipped.hz))),
                percent(skipped.mean),
                percent(skipped.least),
                percent(skipped.most),
                once(duration(frames.period_ns)),
                once(count(frames.count)),
            ]);
        }
    }
    let legend = "skipped: the share that would come later than half of the period, if timers expired only \
                  at ticks; in the mean over where the ticks lie, in the best place and in the worst";
    format!("\n{}{}", table.render(style), style.wrap(Tone::Faint, 2, legend))
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
