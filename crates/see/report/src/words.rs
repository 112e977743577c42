//! Names, losses and delays in plain words, the same in the terminal and in HTML.

use std::fmt::Write as _;

use spry_analysis::findings::{
    Blame, CpuFinding, Culprit, Delay, DelayCause, DelayEnd, Findings, IdleReason, NameShare, Party,
    TraceFinding, Who,
};
pub use spry_page::words::plain;
use spry_page::words::{count, duration};
use spry_trace::event::{Comm, Context};
use spry_trace::{Group, Kind};

/// A moment since the start of the trace, to the microsecond: `12.345678 s`.
pub(crate) fn moment(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// A number of CPUs: `1 CPU`, `2 CPUs`; `CPUs` if the number is not known.
pub(crate) fn cpus(number: u16) -> String {
    match number {
        0 => "CPUs".into(),
        1 => "1 CPU".into(),
        more => format!("{more} CPUs"),
    }
}

/// The mean size of an event, bytes; `None` if there are no events, or if the findings are of a part of the
/// trace: the size is the whole trace's.
pub(crate) fn bytes_per_event(trace: &TraceFinding) -> Option<f64> {
    let is_whole = trace.from_ns == 0 && trace.to_ns >= trace.duration_ns;
    share(trace.bytes, trace.events).filter(|_| is_whole)
}

/// The number of lost events, in all and by place: `15: 15 on CPU 1`.
pub(crate) fn losses(trace: &TraceFinding) -> String {
    let by_cpu = trace.lost_by_cpu.iter().enumerate().filter(|&(_, &lost)| lost > 0);
    let mut parts: Vec<String> = by_cpu.map(|(cpu, &lost)| format!("{} on CPU {cpu}", count(lost))).collect();
    let elsewhere = trace.lost.saturating_sub(trace.lost_by_cpu.iter().sum());
    if elsewhere > 0 {
        parts.push(format!("{} in damaged blocks", count(elsewhere)));
    }
    format!("{}: {}", count(trace.lost), parts.join(", "))
}

/// A part of a whole as a share; `None` if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A part of a whole as a share, where the part may be below 0; `None` if the whole is 0.
pub(crate) fn signed_share(part: i64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// A name without the control characters that a task may have put into it.
pub(crate) fn comm(comm: &Comm) -> String {
    plain(&String::from_utf8_lossy(comm.as_bytes()))
}

/// A task's name and number: `mplayer 1234`.
pub(crate) fn who(who: &Who) -> String {
    match comm(&who.comm) {
        name if name.is_empty() => format!("task {}", who.tid),
        name => format!("{name} {}", who.tid),
    }
}

/// A party in words, as the subject of a sentence.
pub(crate) fn party(party: &Party) -> String {
    match party {
        Party::Task(task) => who(task),
        Party::Interrupt(kind) => kind.to_string(),
        Party::Idle => "idle".into(),
        Party::Unknown => "unknown".into(),
        Party::Others => "others".into(),
        Party::Quota => "the quota of its group".into(),
    }
}

/// A party as a cause of delays: `cc1 4567`, `idle CPUs`.
pub fn cause_of_delays(cause: &Party) -> String {
    match cause {
        Party::Idle => "idle CPUs".into(),
        Party::Unknown => "an unknown holder of the CPU".into(),
        Party::Task(_) | Party::Interrupt(_) | Party::Others | Party::Quota => party(cause),
    }
}

/// The pair of victim and cause with the most time. Causes that are not kept apart are no single cause.
pub fn most_blame(blames: &[Blame]) -> Option<&Blame> {
    blames.iter().find(|blame| blame.culprit != Party::Others)
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
        DelayCause::Throttled { group, quota_ns, period_ns } => {
            let limit = quota_ns.zip(*period_ns).map_or_else(String::new, |(quota_ns, period_ns)| {
                format!(", cpu.max {} {}", quota_ns / 1_000, period_ns / 1_000)
            });
            format!("throttled by {}{limit}", of_group(group))
        }
        DelayCause::Released { group } => format!("throttled before by {}", of_group(group)),
        DelayCause::Unknown => "how the wait began is not known".into(),
    }
}

/// A cgroup's path, as far as it is known.
fn of_group(path: &str) -> String {
    if path.is_empty() { "a group above it".into() } else { plain(path) }
}

/// The greatest parts of a wait in words: `cc1 4567 ran 29.0 ms, hog 3321 2.10 ms`.
pub fn culprits(delay: &Delay) -> String {
    let parts = parts(delay);
    let largest_ns = parts.iter().map(|part| part.1).max().unwrap_or(0);
    let (named, gathered): (Vec<&Part>, Vec<&Part>) =
        parts.iter().partition(|part| matches!(part.0, Doer::Task(_) | Doer::Name(_)));
    // A named culprit comes first, but gathered time is not left out where it is most of the wait.
    let mut shown: Vec<&Part> = named.into_iter().chain(gathered).collect();
    let mut at = 0;
    shown.retain(|part| {
        at += 1;
        at == 1 || part.1 >= largest_ns / 20
    });
    if shown.len() > 3 {
        shown.drain(2..shown.len() - 1);
    }
    let mut text = String::new();
    for (doer, ran_ns) in shown {
        let joint = if text.is_empty() { "" } else { ", " };
        let ran = if text.is_empty() { " ran" } else { "" };
        let name = match doer {
            Doer::Task(task) => who(task) + ran,
            Doer::Name(name) => many(name) + ran,
            Doer::Other(Party::Idle) => "the CPU was idle".into(),
            Doer::Other(Party::Quota) => "the quota of its group was spent for".into(),
            Doer::Other(Party::Unknown) => "not known for".into(),
            Doer::Other(other) => party(other) + ran,
        };
        _ = write!(text, "{joint}{name} {}", duration(*ran_ns));
        if matches!(doer, Doer::Other(Party::Idle)) {
            _ = write!(text, " ({})", idle_reason(delay));
        }
    }
    if text.is_empty() {
        text += "no other task had the CPU";
    }
    if let Some(unused) = unused(delay) {
        _ = write!(text, " ({unused})");
    }
    text
}

/// The CPU that a bound task did not use, unless that CPU was idle for a small part of the wait alone. The
/// task is named, for the text before may be of another: `make 7 is bound to CPU 1; CPU 3 was idle for 3 ms`.
fn unused(delay: &Delay) -> Option<String> {
    let bound = delay.bound.as_ref().filter(|bound| bound.idle_ns >= delay.wait_ns / 10)?;
    let to = match bound.cpus {
        1 => format!("CPU {}", delay.cpu),
        cpus => format!("{cpus} CPUs"),
    };
    let (victim, idle) = (who(&delay.victim), duration(bound.idle_ns));
    Some(format!("{victim} is bound to {to}; CPU {} was idle for {idle}", bound.idle_cpu))
}

/// Why a CPU was idle during a wait, as far as the trace shows it: `290 us of it to leave idle state 3`.
fn idle_reason(delay: &Delay) -> String {
    match delay.idle {
        Some(IdleReason::State { state, leaving_ns }) => {
            format!("{} of it to leave idle state {state}", duration(leaving_ns))
        }
        Some(IdleReason::NoState) => "in no idle state when the wait began".into(),
        Some(IdleReason::Unknown) => "why is not known".into(),
        None => "why is not known: record group idle".into(),
    }
}

/// A note on the culprits of many waits; `None` if no idle CPU is among the shown culprits.
pub(crate) fn idle_note<'a>(
    findings: &Findings,
    shown: impl IntoIterator<Item = &'a Party>,
) -> Option<&'static str> {
    shown.into_iter().find(|party| matches!(party, Party::Idle))?;
    Some(if findings.trace.groups.contains(Group::Idle) {
        "idle: the CPU had no task. The worst delays tell why."
    } else {
        "idle: the CPU had no task. Why is not known: record group idle."
    })
}

/// A task, the tasks of one name, or another party that filled a part of a wait.
enum Doer<'a> {
    Task(&'a Who),
    Name(&'a NameShare),
    Other(&'a Party),
}

type Part<'a> = (Doer<'a>, u64);

/// The parts of a wait: by task, or by name if each task had little of it and the tasks of a name had much.
fn parts(delay: &Delay) -> Vec<Part<'_>> {
    let task_ns = |culprit: &Culprit| task_of(culprit).map_or(0, |_| culprit.ran_ns);
    let most_of_task_ns = delay.culprits.iter().map(task_ns).max().unwrap_or(0);
    let most_of_name_ns = delay.names.first().map_or(0, |name| name.ran_ns);
    if most_of_task_ns >= delay.wait_ns / 4 || most_of_name_ns <= 2 * most_of_task_ns {
        let part =
            |culprit| (task_of(culprit).map_or(Doer::Other(&culprit.party), Doer::Task), culprit.ran_ns);
        return delay.culprits.iter().map(part).collect();
    }
    let mut parts: Vec<Part<'_>> = delay.names.iter().map(|name| (Doer::Name(name), name.ran_ns)).collect();
    let named_ns: u64 = delay.names.iter().map(|name| name.ran_ns).sum();
    let tasks_ns: u64 = delay.culprits.iter().map(task_ns).sum();
    for culprit in delay.culprits.iter().filter(|culprit| task_of(culprit).is_none()) {
        // Some tasks that count as others in `culprits` are shown under their names here.
        let ran_ns = match culprit.party {
            Party::Others => (tasks_ns + culprit.ran_ns).saturating_sub(named_ns),
            _ => culprit.ran_ns,
        };
        parts.push((Doer::Other(&culprit.party), ran_ns));
    }
    parts
}

fn task_of(culprit: &Culprit) -> Option<&Who> {
    match &culprit.party {
        Party::Task(task) => Some(task),
        _ => None,
    }
}

/// A name and the number of tasks with it: `hackbench (398 tasks)`.
fn many(name: &NameShare) -> String {
    let tasks = if name.tasks == 1 { "task" } else { "tasks" };
    match comm(&name.comm) {
        text if text.is_empty() => format!("{} {tasks} without a name", name.tasks),
        text => format!("{text} ({} {tasks})", name.tasks),
    }
}

/// Describes one delay in a sentence.
pub fn sentence(delay: &Delay) -> String {
    let was = match delay.cause {
        DelayCause::Throttled { .. } => "throttled",
        _ => "ready to run",
    };
    let mut text = format!(
        "{} was {was} for {} on CPU {} at {} ({})",
        who(&delay.victim),
        duration(delay.wait_ns),
        delay.cpu,
        moment(delay.start_ns),
        cause(&delay.cause),
    );
    let parts = parts(delay);
    let named = parts.iter().filter(|part| matches!(part.0, Doer::Task(_) | Doer::Name(_)));
    // A task that had only a small part of the wait is not to blame for it.
    match named.max_by_key(|part| part.1).filter(|part| part.1 >= delay.wait_ns / 10) {
        Some((Doer::Task(task), ran_ns)) => {
            _ = write!(text, ", while {} ran for {}", who(task), duration(*ran_ns));
        }
        Some((Doer::Name(name), ran_ns)) => {
            _ = write!(text, ", while {} ran for {}", many(name), duration(*ran_ns));
        }
        _ => {}
    }
    if delay.end == DelayEnd::Cut {
        text += ", and still waited when the trace ended";
    }
    if let Some(unused) = unused(delay) {
        _ = write!(text, ". {unused}");
    }
    text + "."
}

/// If more than one in this many switches is to a task without its wake-up, the report has a note on it.
const MISSING_SHARE: u64 = 50;

/// A note on waits and wakers that the trace lacks, and the events to record; `None` if it lacks none.
pub fn unknown(trace: &TraceFinding, cpus: &[CpuFinding]) -> Option<String> {
    let (missing, switches) =
        (trace.oddities.missing_wakeup, cpus.iter().map(|cpu| cpu.switches).sum::<u64>());
    if trace.lacks.contains(Kind::Wakeup) {
        Some(
            "No wake-ups in this file: record `sched_waking` too. How long tasks slept, and waited after wake-ups, \
             is not known."
                .to_owned(),
        )
    } else if missing > switches / MISSING_SHARE {
        Some(format!(
            "{} wake-ups are missing. The waits after them, and the sleeps before them, are not known.",
            count(missing)
        ))
    } else if trace.lacks.contains(Kind::Waking) {
        let line = "No wakings in this file: record `sched_waking` too. Which task woke which is not known.";
        Some(line.to_owned())
    } else {
        None
    }
}

/// The verdict in at most two sentences: the longest wait, and the victim and culprit with the most time.
pub(crate) fn verdict(findings: &Findings) -> String {
    let Some(delays) = &findings.delays else { return "Delays were not looked at.".into() };
    let is_partial = findings.trace.lacks.contains(Kind::Wakeup);
    let Some(worst) = delays.worst.first() else {
        let none = match is_partial {
            _ if findings.tasks.is_empty() => "No task that was asked for was seen.",
            true => "No task was seen to wait for a CPU.",
            false => "No task waited for a CPU.",
        };
        return none.into();
    };
    let known = if is_partial { "known " } else { "" };
    let mut text = format!("Longest {known}wait: {}", sentence(worst));
    if let Some(blame) = most_blame(&delays.blame) {
        _ = write!(
            text,
            " Most {known}time lost: {} to {}, {} in {} {}.",
            who(&blame.victim),
            cause_of_delays(&blame.culprit),
            duration(blame.total_ns),
            count(blame.waits),
            if blame.waits == 1 { "wait" } else { "waits" },
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use spry_analysis::findings::{Bound, Delays};
    use spry_trace::{Tgid, Tid};

    use super::*;

    #[test]
    fn a_crowd_of_one_name_is_to_blame_together() {
        let victim = Who { tid: Tid(7), tgid: Tgid(7), comm: Comm::new(b"player") };
        let party = |tid| Party::Task(Who { tid: Tid(tid), tgid: Tgid(100), comm: Comm::new(b"crowd") });
        let culprit = |party, ran_ns| Culprit { party, ran_ns };
        let mut delay = Delay {
            victim,
            start_ns: 0,
            wait_ns: 2_000_000_000,
            cpu: 0,
            cause: DelayCause::New,
            end: DelayEnd::Dispatched,
            culprits: vec![
                culprit(Party::Others, 1_900_000_000),
                culprit(party(1), 60_000_000),
                culprit(party(2), 40_000_000),
            ],
            names: vec![NameShare { comm: Comm::new(b"crowd"), tasks: 398, ran_ns: 1_950_000_000 }],
            slices: Vec::new(),
            idle: None,
            bound: None,
            culprit_stack: Vec::new(),
        };
        assert_eq!(culprits(&delay), "crowd (398 tasks) ran 1.95 s");
        assert!(sentence(&delay).ends_with(", while crowd (398 tasks) ran for 1.95 s."));
        delay.culprits = vec![culprit(party(1), 1_500_000_000), culprit(party(2), 500_000_000)];
        assert_eq!(culprits(&delay), "crowd 1 ran 1.50 s, crowd 2 500 ms");
        assert!(sentence(&delay).ends_with(", while crowd 1 ran for 1.50 s."));
    }

    #[test]
    fn a_throttled_wait_is_told_with_its_group_and_its_limit() {
        let victim = Who { tid: Tid(7), tgid: Tgid(7), comm: Comm::new(b"loop") };
        let group = "/kube\x1b/pod".into();
        let mut delay = Delay {
            victim,
            start_ns: 0,
            wait_ns: 90_000_000,
            cpu: 1,
            cause: DelayCause::Throttled { group, quota_ns: Some(10_000_000), period_ns: Some(100_000_000) },
            end: DelayEnd::Dispatched,
            culprits: vec![Culprit { party: Party::Quota, ran_ns: 90_000_000 }],
            names: Vec::new(),
            slices: Vec::new(),
            idle: None,
            bound: None,
            culprit_stack: Vec::new(),
        };
        assert_eq!(
            sentence(&delay),
            "loop 7 was throttled for 90.0 ms on CPU 1 at 0.000000 s \
             (throttled by /kube?/pod, cpu.max 10000 100000)."
        );
        assert_eq!(culprits(&delay), "the quota of its group was spent for 90.0 ms");
        delay.cause = DelayCause::Throttled { group: "".into(), quota_ns: None, period_ns: None };
        assert!(sentence(&delay).ends_with("(throttled by a group above it)."), "{}", sentence(&delay));
        delay.cause = DelayCause::Released { group: "".into() };
        assert!(
            sentence(&delay).contains("was ready to run") && sentence(&delay).contains("by a group above it")
        );
    }

    #[test]
    fn an_idle_cpu_is_told_with_its_reason() {
        let mut delay = Delay {
            victim: Who { tid: Tid(7), tgid: Tgid(7), comm: Comm::new(b"loop") },
            start_ns: 0,
            wait_ns: 340_000,
            cpu: 1,
            cause: DelayCause::New,
            end: DelayEnd::Dispatched,
            culprits: vec![Culprit { party: Party::Idle, ran_ns: 340_000 }],
            names: Vec::new(),
            slices: Vec::new(),
            idle: None,
            bound: None,
            culprit_stack: Vec::new(),
        };
        let state = IdleReason::State { state: 3, leaving_ns: 290_000 };
        for (reason, told) in [
            (None, "why is not known: record group idle"),
            (Some(IdleReason::Unknown), "why is not known"),
            (Some(IdleReason::NoState), "in no idle state when the wait began"),
            (Some(state), "290 us of it to leave idle state 3"),
        ] {
            delay.idle = reason;
            assert_eq!(culprits(&delay), format!("the CPU was idle 340 us ({told})"));
        }
    }

    #[test]
    fn a_bound_task_is_told_with_the_cpu_that_it_did_not_use() {
        let mut delay = delayed(&[]).delays.expect("one delay").worst.remove(0);
        delay.bound = Some(Bound { cpus: 1, idle_cpu: 3, idle_ns: 300_000 });
        let told = format!("{} is bound to CPU 1; CPU 3 was idle for 300 us", who(&delay.victim));
        assert_eq!(culprits(&delay), format!("no other task had the CPU ({told})"));
        assert!(sentence(&delay).ends_with(&format!(". {told}.")), "{}", sentence(&delay));
        delay.bound = Some(Bound { cpus: 2, idle_cpu: 3, idle_ns: 34_000 });
        let told = format!("{} is bound to 2 CPUs; CPU 3 was idle for 34.0 us", who(&delay.victim));
        assert!(culprits(&delay).ends_with(&format!("({told})")));
        delay.bound = Some(Bound { cpus: 2, idle_cpu: 3, idle_ns: 33_999 });
        assert!(!culprits(&delay).contains("bound") && !sentence(&delay).contains("bound"));
    }

    #[test]
    fn many_waits_for_idle_cpus_get_one_note() {
        let mut findings = Findings::default();
        assert_eq!(idle_note(&findings, [&Party::Others, &Party::Quota]), None);
        let note = idle_note(&findings, [&Party::Others, &Party::Idle]);
        assert!(note.is_some_and(|note| note.ends_with("record group idle.")));
        findings.trace.groups = findings.trace.groups.with(Group::Idle);
        let note = idle_note(&findings, [&Party::Idle]);
        assert!(note.is_some_and(|note| note.ends_with("The worst delays tell why.")));
    }

    #[test]
    fn losses_of_no_cpu_are_told_too() {
        let trace = TraceFinding { lost: 1_020, lost_by_cpu: vec![0, 15], ..TraceFinding::default() };
        assert_eq!(losses(&trace), "1,020: 15 on CPU 1, 1,005 in damaged blocks");
    }

    /// Findings with one wait of a task, and with these causes of its delays.
    fn delayed(causes: &[(Party, u64)]) -> Findings {
        let victim = Who { tid: Tid(7), tgid: Tgid(7), comm: Comm::new(b"loop") };
        let delay = Delay {
            victim,
            start_ns: 0,
            wait_ns: 340_000,
            cpu: 1,
            cause: DelayCause::New,
            end: DelayEnd::Dispatched,
            culprits: Vec::new(),
            names: Vec::new(),
            slices: Vec::new(),
            idle: None,
            bound: None,
            culprit_stack: Vec::new(),
        };
        let blame = causes.iter().map(|&(culprit, total_ns)| Blame { victim, culprit, total_ns, waits: 1 });
        let delays = Delays { worst: vec![delay], blame: blame.collect() };
        Findings { delays: Some(delays), ..Findings::default() }
    }

    #[test]
    fn the_most_time_is_that_of_any_cause() {
        let hog = Party::Task(Who { tid: Tid(8), tgid: Tgid(8), comm: Comm::new(b"hog") });
        for (most, told) in [
            (Party::Idle, "idle CPUs"),
            (Party::Quota, "the quota of its group"),
            (Party::Unknown, "an unknown holder of the CPU"),
            (Party::Others, "hog 8"),
        ] {
            let said = verdict(&delayed(&[(most, 900_000_000), (hog, 1_000)]));
            assert!(said.contains(&format!("Most time lost: loop 7 to {told}, ")), "{said}");
        }
        assert!(!verdict(&delayed(&[(Party::Others, 900)])).contains("Most time lost"));
    }

    #[test]
    fn the_size_of_an_event_is_told_of_whole_traces() {
        let mut trace =
            TraceFinding { events: 10, bytes: 80, duration_ns: 9, to_ns: 9, ..TraceFinding::default() };
        assert_eq!(bytes_per_event(&trace), Some(8.0));
        trace.to_ns = 5;
        assert_eq!(bytes_per_event(&trace), None);
        (trace.from_ns, trace.to_ns) = (1, 9);
        assert_eq!(bytes_per_event(&trace), None);
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(comm(&Comm::new(b"\x1b[2Jx\ny")), "?[2Jx?y");
        assert_eq!(plain("a\u{202e}b"), "a?b");
    }
}
