//! Numbers, names and delays in plain words, the same in the terminal and in HTML.

use std::fmt::Write as _;

use spry_analysis::findings::{Culprit, Delay, DelayCause, DelayEnd, Party, TraceFinding, Who};
use spry_trace::event::{Comm, Context};

/// A duration with three significant digits: `31.2 ms`.
pub(crate) fn duration(ns: u64) -> String {
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    let (value, unit) = match ns {
        0..999_500 => (ns as f64 / 1e3, "us"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if value < 9.995 {
        format!("{value:.2} {unit}")
    } else if value < 99.95 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// A moment since the start of the trace, to the microsecond: `12.345678 s`.
pub(crate) fn moment(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// A number with its thousands apart: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What was lost and where: `15: 15 on CPU 1`.
pub(crate) fn losses(trace: &TraceFinding) -> String {
    let by_cpu = trace.lost_by_cpu.iter().enumerate().filter(|&(_, &lost)| lost > 0);
    let mut parts: Vec<String> = by_cpu.map(|(cpu, &lost)| format!("{} on CPU {cpu}", count(lost))).collect();
    let elsewhere = trace.lost.saturating_sub(trace.lost_by_cpu.iter().sum());
    if elsewhere > 0 {
        parts.push(format!("{} in damaged blocks", count(elsewhere)));
    }
    format!("{}: {}", count(trace.lost), parts.join(", "))
}

/// A number of bytes: `1.50 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    match number {
        0..1_024 => format!("{number} B"),
        1_024..1_048_576 => format!("{:.1} KiB", number as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", number as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", number as f64 / 1_073_741_824.0),
    }
}

/// A share, 0 to 1 or more, in percent: `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent < 0.995 { format!("{percent:.2} %") } else { format!("{percent:.1} %") }
}

/// A part of a whole as a share; `None` of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A name without the control characters that a task may have put into it.
pub(crate) fn comm(comm: &Comm) -> String {
    plain(&String::from_utf8_lossy(comm.as_bytes()))
}

/// A text on one line: no control characters, which a terminal might obey.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '?' } else { c }).collect()
}

/// Control characters, and those that turn the direction of writing.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `mplayer 1234`.
pub(crate) fn who(who: &Who) -> String {
    match comm(&who.comm) {
        name if name.is_empty() => format!("task {}", who.tid),
        name => format!("{name} {}", who.tid),
    }
}

/// A party as the doer of something.
pub(crate) fn party(party: &Party) -> String {
    match party {
        Party::Task(task) => who(task),
        Party::Interrupt(kind) => kind.to_string(),
        Party::Idle => "idle".into(),
        Party::Unknown => "unknown".into(),
        Party::Others => "others".into(),
    }
}

/// How a wait began: `woken by Xorg 900`.
pub(crate) fn cause(cause: &DelayCause) -> String {
    match cause {
        DelayCause::Woken { waker: Some(waker), context: Context::Task } => {
            format!("woken by {}", who(waker))
        }
        DelayCause::Woken { context: Context::Softirq, .. } => "woken by a softirq".into(),
        DelayCause::Woken { context: Context::Hardirq, .. } => "woken by an interrupt".into(),
        DelayCause::Woken { .. } => "woken".into(),
        DelayCause::Preempted { by: Some(by) } => format!("preempted by {}", who(by)),
        DelayCause::Preempted { by: None } => "preempted".into(),
        DelayCause::New => "new".into(),
        DelayCause::Unknown => "waiting since before the trace".into(),
    }
}

/// What went on during a wait, in its greatest parts: `cc1 4567 ran 29.0 ms, hog 3321 2.10 ms`.
pub(crate) fn culprits(delay: &Delay) -> String {
    let is_gathered =
        |culprit: &&Culprit| matches!(culprit.party, Party::Others | Party::Unknown | Party::Idle);
    let mut notable: Vec<&Culprit> = delay.culprits.iter().filter(|culprit| !is_gathered(culprit)).collect();
    notable.extend(delay.culprits.iter().filter(is_gathered));
    let largest_ns = notable.iter().map(|culprit| culprit.ran_ns).max().unwrap_or(0);
    let mut at = 0;
    notable.retain(|culprit| {
        at += 1;
        at == 1 || culprit.ran_ns >= largest_ns / 20
    });
    // A named culprit comes first, but what is gathered is not left out where it is most of the wait.
    let shown =
        if notable.len() > 3 { [&notable[..2], &notable[notable.len() - 1..]].concat() } else { notable };
    let mut text = String::new();
    for culprit in shown {
        let joint = if text.is_empty() { "" } else { ", " };
        let name = match culprit.party {
            Party::Idle => "the CPU was idle".into(),
            Party::Unknown => "not known for".into(),
            _ => party(&culprit.party) + if text.is_empty() { " ran" } else { "" },
        };
        _ = write!(text, "{joint}{name} {}", duration(culprit.ran_ns));
    }
    if text.is_empty() { "nobody else had the CPU".into() } else { text }
}

/// One delay as a sentence.
pub(crate) fn sentence(delay: &Delay) -> String {
    let mut text = format!(
        "{} was ready to run for {} on CPU {} at {} ({})",
        who(&delay.victim),
        duration(delay.wait_ns),
        delay.cpu,
        moment(delay.start_ns),
        cause(&delay.cause),
    );
    let tasks = delay.culprits.iter().filter(|culprit| matches!(culprit.party, Party::Task(_)));
    // Who had a small part of the wait is not to blame for it.
    if let Some(Culprit { party: Party::Task(task), ran_ns }) =
        tasks.max_by_key(|culprit| culprit.ran_ns).filter(|culprit| culprit.ran_ns >= delay.wait_ns / 10)
    {
        _ = write!(text, ", while {} ran for {}", who(task), duration(*ran_ns));
    }
    if delay.end == DelayEnd::Cut {
        text += ", and still waited when the trace ended";
    }
    text + "."
}

/// The verdict in at most two sentences: the longest wait, and who lost most to whom.
pub(crate) fn verdict(delays: Option<&spry_analysis::findings::Delays>) -> String {
    let Some(delays) = delays else { return "Delays were not looked at.".into() };
    let Some(worst) = delays.worst.first() else { return "No task waited for a CPU.".into() };
    let mut text = format!("Longest wait: {}", sentence(worst));
    let most = delays.blame.iter().find(|blame| matches!(blame.culprit, Party::Task(_)));
    if let Some(blame) = most {
        _ = write!(
            text,
            " Most time lost: {} to {}, {} in {} {}.",
            who(&blame.victim),
            party(&blame.culprit),
            duration(blame.total_ns),
            count(blame.waits),
            if blame.waits == 1 { "wait" } else { "waits" },
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_roll_over_to_the_next_unit() {
        let shown = [0, 999, 1_000, 12_345, 999_499, 999_500, 31_249_000, 999_600_000, 125_000_000_000];
        let want =
            ["0 ns", "999 ns", "1.00 us", "12.3 us", "999 us", "1.00 ms", "31.2 ms", "1.00 s", "125 s"];
        assert_eq!(shown.map(duration), want);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn losses_of_no_cpu_are_told_too() {
        let trace = TraceFinding { lost: 1_020, lost_by_cpu: vec![0, 15], ..TraceFinding::default() };
        assert_eq!(losses(&trace), "1,020: 15 on CPU 1, 1,005 in damaged blocks");
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(comm(&Comm::new(b"\x1b[2Jx\ny")), "?[2Jx?y");
        assert_eq!(plain("a\u{202e}b"), "a?b");
    }
}
