//! The summary: first the worst delays, victims and culprits; then tasks, CPUs, losses and costs.

use spry_analysis::findings::{Blame, Delays, Findings, Party, TaskFinding};
use spry_page::words::{bytes, count, duration, percent};
use spry_trace::Group;

use super::style::{Style, Table, Tone, bar};
use super::{delays, losses, or_dash, shown, unknown};
use crate::recorder;
use crate::words::{self, share, signed_share};

const DELAYS: usize = 6;
const BLAMES: usize = 4;
const TASKS: usize = 10;
const CPUS: usize = 4;

/// The summary: some 40 lines of the style's width.
pub fn summary(findings: &Findings, style: Style) -> String {
    let mut text = machine(findings, style);
    text += &style.wrap(Tone::Heading, 0, &words::verdict(findings));
    text += &unknown(findings, style);
    text.push('\n');
    if let Some(found) = findings.delays.as_ref().filter(|found| !found.worst.is_empty()) {
        text += &style.heading("Worst delays");
        text += &delays::worst(found, DELAYS, style);
        text += &causes(findings, found, style);
    }
    text += &tasks(findings, style);
    text += &cpus(findings, style);
    text += &losses(findings, style);
    text += &own_cost(findings, style);
    text + &hints(findings, style)
}

/// The pairs of victim and cause with the most time.
fn causes(findings: &Findings, found: &Delays, style: Style) -> String {
    let heading = style.heading("Delays and their causes");
    // Tasks that are not kept apart are no cause that can be named.
    let told: Vec<&Blame> =
        found.blame.iter().filter(|blame| blame.culprit != Party::Others).take(BLAMES).collect();
    if told.is_empty() {
        let none = match found.blame.is_empty() {
            true => "The trace does not show what had the CPUs during the waits.",
            false => "Many tasks shared in every wait; none of them had much of it.",
        };
        return heading + &style.wrap(Tone::Plain, 2, none);
    }
    let note = words::idle_note(findings, told.iter().map(|blame| &blame.culprit));
    let note = note.map_or_else(String::new, |note| style.wrap(Tone::Faint, 2, note));
    heading + &delays::blame(told.into_iter(), style) + &note
}

fn machine(findings: &Findings, style: Style) -> String {
    let trace = &findings.trace;
    let mut text = format!(
        "{} on {}, {}",
        duration(trace.to_ns.saturating_sub(trace.from_ns)),
        words::cpus(trace.cpus),
        words::plain(format!("{} {}", trace.kernel, trace.machine).trim()),
    );
    if let Some(hz) = trace.hz {
        text += &format!(", {hz} Hz");
    }
    if let Some(preemption) = &trace.preemption {
        text += &format!(", preemption {}", words::plain(preemption));
    }
    if let Some(scheduler) = &trace.scheduler {
        text += &format!(", {}", words::plain(scheduler));
    }
    text += &format!("; {} events in {}", count(trace.events), bytes(trace.bytes));
    if let Some(per_event) = words::bytes_per_event(trace) {
        text += &format!(" ({per_event:.1} bytes each)");
    }
    style.wrap(Tone::Faint, 0, &text)
}

fn tasks(findings: &Findings, style: Style) -> String {
    let window_ns = findings.trace.to_ns.saturating_sub(findings.trace.from_ns);
    let figures = ["run", "wait", "p99", "max", "quanta/s", "billed", "vol", "invol", "CPU"];
    let mut table = Table::new("task", &figures);
    let (tasks, note) = shown(findings, TASKS);
    if tasks.is_empty() {
        return style.heading("Tasks") + &style.wrap(Tone::Plain, 2, "None that was asked for was seen.");
    }
    for task in tasks {
        let dispatch = task.dispatch.as_ref();
        let summary = dispatch.and_then(|dispatch| dispatch.all.as_ref()?.summary());
        table.row([
            words::who(&task.who),
            duration(task.runtime_ns),
            or_dash(dispatch.and_then(|dispatch| dispatch.wait_share), percent),
            or_dash(summary, |summary| duration(summary.p99)),
            or_dash(summary, |summary| duration(summary.max)),
            or_dash(task.quanta.as_ref().and_then(|quanta| quanta.per_second), |rate| format!("{rate:.1}")),
            or_dash(billed(findings, task), percent),
            count(task.switches.voluntary),
            count(task.switches.involuntary),
            or_dash(share(task.runtime_ns, window_ns), percent),
        ]);
    }
    let hz = findings.trace.hz.map_or_else(|| "the machine's rate".into(), |hz| format!("{hz} Hz"));
    let legend = format!(
        "wait: share of runnable time; p99, max: dispatch latency; billed: by ticks at {hz}; \
         vol, invol: switches"
    );
    style.heading("Tasks") + &table.render(style) + &note + &style.wrap(Tone::Faint, 2, &legend)
}

/// The task's bill by ticks at the machine's own rate, as a share of its run time.
fn billed(findings: &Findings, task: &TaskFinding) -> Option<f64> {
    let hz = findings.trace.hz?;
    task.billing.as_ref()?.iter().find(|billing| billing.hz == hz)?.ratio
}

fn cpus(findings: &Findings, style: Style) -> String {
    let mut table = Table::new("CPU", &["busy", "share", "irq", "stolen", "switches", "moved in", "lost"]);
    for cpu in findings.cpus.iter().take(CPUS) {
        let known_ns = cpu.busy_ns + cpu.idle_ns;
        let busy = share(cpu.busy_ns, known_ns);
        table.row([
            cpu.cpu.to_string(),
            or_dash(busy, |busy| bar(busy, 20)),
            or_dash(busy, percent),
            or_dash(cpu.irq_ns.and_then(|irq_ns| share(irq_ns, known_ns + cpu.unknown_ns)), percent),
            or_dash(cpu.stolen_ns.and_then(|stolen_ns| signed_share(stolen_ns, known_ns)), percent),
            count(cpu.switches),
            or_dash(cpu.migrations_in, count),
            or_dash(findings.trace.lost_by_cpu.get(usize::from(cpu.cpu)), |&lost| count(lost)),
        ]);
    }
    let left = findings.cpus.len().saturating_sub(CPUS);
    let note = if left > 0 { format!("  and {left} more CPUs: --analysis cpu\n") } else { String::new() };
    let mut legend = "stolen: wall time of tasks that the kernel did not count as their run time".to_owned();
    if findings.cpus.iter().any(|cpu| cpu.stolen_ns.is_some_and(|stolen_ns| stolen_ns < 0)) {
        legend += "; below 0: it counted more than they had the CPU, from before their switches";
    }
    style.heading("CPUs") + &table.render(style) + &note + &style.wrap(Tone::Faint, 2, &legend)
}

fn own_cost(findings: &Findings, style: Style) -> String {
    let text = match recorder::cost(findings) {
        Some(cost) => format!(
            "Recording took {} of CPU time: {} of one CPU (process {}).",
            duration(cost.runtime_ns),
            or_dash(cost.cpu_share, percent),
            cost.tgid
        ),
        None => "What recording itself cost is not in what was looked at.".to_owned(),
    };
    style.wrap(Tone::Plain, 2, &text)
}

/// The groups that the trace lacks, with the facts that they would add.
fn hints(findings: &Findings, style: Style) -> String {
    let lacking: Vec<String> = Group::ALL
        .into_iter()
        .filter(|&group| !findings.trace.groups.contains(group))
        .map(|group| format!("{} ({})", group.name(), tells(group)))
        .collect();
    if lacking.is_empty() {
        return String::new();
    }
    style.wrap(Tone::Faint, 2, &format!("More with --events: {}.", lacking.join(", ")))
}

fn tells(group: Group) -> &'static str {
    match group {
        Group::Sched => "which task ran when",
        Group::Timer => "late timers",
        Group::Irq => "interrupt time",
        Group::Resched => "why a switch came late",
        Group::Ipc => "bytes between processes",
        Group::Mark => "programs' own events",
        Group::Stack => "culprits' stacks",
        Group::Idle => "why a CPU was idle",
    }
}
