//! The later sections of the HTML report: reasons, CPUs, wake-ups, interrupts, timers, channels, marks.

use spry_analysis::findings::Findings;
use spry_analysis::histogram::Histogram;
use spry_page::words::{bytes, count};
use spry_trace::event::PrevState;

use super::super::table::{Cell, Table};
use super::section;
use crate::text::timer_name;
use crate::words::{self, moment, share};

const ROWS_MAX: usize = 200;

pub(super) fn reasons(findings: &Findings) -> String {
    if findings.tasks.iter().all(|task| task.reasons.is_none()) {
        return String::new();
    }
    let columns = [
        "task",
        "slept",
        "disk",
        "other block",
        "own wakee",
        "another's wakee",
        "end of slice",
        "other involuntary",
    ];
    let mut table = Table::new(&columns, ROWS_MAX);
    for (task, reasons) in findings.tasks.iter().filter_map(|task| Some((task, task.reasons.as_ref()?))) {
        let of = |state: PrevState| reasons.by_state[state as usize];
        let blocked: u64 = PrevState::ALL.into_iter().filter(|state| !state.is_runnable()).map(of).sum();
        let other = blocked - of(PrevState::Sleeping) - of(PrevState::DiskSleep);
        table.row([
            Cell::Text(words::who(&task.who)),
            Cell::count(of(PrevState::Sleeping)),
            Cell::count(of(PrevState::DiskSleep)),
            Cell::count(other),
            Cell::maybe_count(reasons.by_wakings.map(|by| by.preempted_by_own_wakee)),
            Cell::maybe_count(reasons.by_wakings.map(|by| by.preempted_by_other_wakee)),
            Cell::maybe_count(reasons.by_wakings.map(|by| by.end_of_slice)),
            Cell::maybe_count(reasons.by_wakings.map(|by| by.other_involuntary)),
        ]);
    }
    section("reasons", "Why tasks left the CPU", "Switches by their reason.", &folded(&table.finish()))
}

pub(super) fn cpus(findings: &Findings) -> String {
    let columns = [
        "CPU",
        "busy",
        "busy share",
        "idle",
        "unknown",
        "interrupts",
        "stolen",
        "switches",
        "ticks",
        "moved in",
        "moved out",
        "lost",
    ];
    let mut table = Table::new(&columns, 1_024);
    for cpu in &findings.cpus {
        let lost = findings.trace.lost_by_cpu.get(usize::from(cpu.cpu)).copied();
        table.row([
            Cell::count(u64::from(cpu.cpu)),
            Cell::duration(cpu.busy_ns),
            Cell::percent(share(cpu.busy_ns, cpu.busy_ns + cpu.idle_ns)),
            Cell::duration(cpu.idle_ns),
            Cell::duration(cpu.unknown_ns),
            Cell::maybe_duration(cpu.irq_ns),
            Cell::signed_duration(cpu.stolen_ns),
            Cell::count(cpu.switches),
            Cell::maybe_count(cpu.ticks),
            Cell::maybe_count(cpu.migrations_in),
            Cell::maybe_count(cpu.migrations_out),
            Cell::of(lost, |lost| (count(lost), lost as f64)),
        ]);
    }
    section(
        "cpus",
        "CPUs",
        "Busy share: of the time that the trace tells of. Stolen: wall time of tasks that the kernel did not \
         count as their run time.",
        &table.finish(),
    )
}

pub(super) fn wakeups(findings: &Findings) -> String {
    let Some(found) = &findings.wakeup else { return String::new() };
    let mut table = Table::new(&["part", "count", "mean", "median", "p99", "worst"], ROWS_MAX);
    let parts: [(&str, Option<&Histogram>); 7] = [
        ("deadline to timer handler", found.timer.as_ref()),
        ("timer handler to waking", found.expiry.as_ref()),
        ("waking to run queue", Some(&found.enqueue)),
        ("waking to need-resched", found.resched.as_ref()),
        ("need-resched to switch", found.switch.as_ref()),
        ("waking to switch", Some(&found.total)),
        ("deadline to switch", found.deadline_to_switch.as_ref()),
    ];
    for (name, part) in parts {
        table.row([Cell::Text(name.into())].into_iter().chain(figures(part)));
    }
    section("wakeup", "Wake-up latency in parts", "Over all tasks looked at.", &table.finish())
}

/// The cells of count, mean, median, 99th percentile and maximum.
fn figures(part: Option<&Histogram>) -> [Cell; 5] {
    let summary = part.and_then(Histogram::summary);
    [
        Cell::of(part, |part| (count(part.count()), part.count() as f64)),
        Cell::maybe_duration(summary.map(|summary| summary.mean.round() as u64)),
        Cell::maybe_duration(summary.map(|summary| summary.p50)),
        Cell::maybe_duration(summary.map(|summary| summary.p99)),
        Cell::maybe_duration(summary.map(|summary| summary.max)),
    ]
}

/// Interrupts, timers, channels and marks: the sections of the groups beside `sched`.
pub(super) fn rest(findings: &Findings) -> String {
    interrupts(findings) + &timers(findings) + &channels(findings) + &marks(findings)
}

fn interrupts(findings: &Findings) -> String {
    let Some(found) = &findings.interrupts else { return String::new() };
    let mut table = Table::new(&["interrupt", "count", "time", "worst", "taken from tasks"], ROWS_MAX);
    for interrupt in found {
        table.row([
            Cell::Text(interrupt.kind.to_string()),
            Cell::count(interrupt.time.count),
            Cell::duration(interrupt.time.sum_ns),
            Cell::duration(interrupt.time.max_ns),
            Cell::duration(interrupt.stolen_ns),
        ]);
    }
    section(
        "interrupts",
        "Interrupts",
        "Time in handlers, without the interrupts inside them.",
        &table.finish(),
    )
}

fn timers(findings: &Findings) -> String {
    let Some(found) = &findings.timers else { return String::new() };
    let columns = ["timer", "count", "mean late", "median", "p99", "worst", "past slack", "early"];
    let mut table = Table::new(&columns, ROWS_MAX);
    for timer in found {
        let counts = [Cell::count(timer.past_slack), Cell::count(timer.early)];
        let name = Cell::Text(timer_name(timer.kind).into());
        table.row([name].into_iter().chain(figures(Some(&timer.lateness))).chain(counts));
    }
    section("timers", "Timers", "From the deadline to the handler.", &table.finish()) + &frames(findings)
}

fn frames(findings: &Findings) -> String {
    let Some(found @ [_, ..]) = findings.frames.as_deref() else { return String::new() };
    let columns = ["task", "period", "count", "ticks, Hz", "skipped", "at least", "at most"];
    let mut table = Table::new(&columns, ROWS_MAX);
    let rows = found.iter().flat_map(|frames| frames.skipped.iter().map(move |skipped| (frames, skipped)));
    for (frames, skipped) in rows {
        let shares = [skipped.mean, skipped.least, skipped.most].map(|share| Cell::percent(Some(share)));
        let figures = [
            Cell::Text(words::who(&frames.who)),
            Cell::duration(frames.period_ns),
            Cell::count(frames.count),
            Cell::count(u64::from(skipped.hz)),
        ];
        table.row(figures.into_iter().chain(shares));
    }
    let tells = "The share of periodic wake-ups that would come later than half of their period, if timers \
                 expired only at ticks: in the mean over where the ticks lie, in the best place and in the \
                 worst.";
    section("frames", "Periodic wake-ups", tells, &table.finish())
}

fn channels(findings: &Findings) -> String {
    let Some(found) = &findings.channels else { return String::new() };
    let mut table = Table::new(&["channel", "written", "read", "by"], ROWS_MAX);
    for channel in &found.top {
        let users: Vec<String> =
            channel.users.iter().map(|user| format!("{} {}", words::comm(&user.comm), user.tgid)).collect();
        table.row([
            Cell::Text(format!("{:?} {}", channel.kind, channel.id).to_lowercase()),
            Cell::Figure(bytes(channel.written_bytes), channel.written_bytes as f64),
            Cell::Figure(bytes(channel.read_bytes), channel.read_bytes as f64),
            Cell::Text(users.join(", ")),
        ]);
    }
    section("channels", "Channels", "Pipes, sockets and terminals between processes.", &table.finish())
}

fn marks(findings: &Findings) -> String {
    let Some(found) = &findings.marks else { return String::new() };
    let mut table = Table::new(&["at", "task", "CPU", "mark"], ROWS_MAX);
    for mark in &found.list {
        table.row([
            Cell::Figure(moment(mark.time_ns), mark.time_ns as f64),
            Cell::Text(words::who(&mark.who)),
            Cell::count(u64::from(mark.cpu)),
            Cell::Text(words::plain(&mark.text)),
        ]);
    }
    section("marks", "Marks", "Programs' own events.", &folded(&table.finish()))
}

/// A long table that opens on demand.
fn folded(table: &str) -> String {
    format!("<details><summary>show</summary>{table}</details>")
}
