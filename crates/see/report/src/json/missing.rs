//! The fields that are null because the trace lacks a group or a kind of events.

use std::collections::BTreeMap;

use spry_analysis::findings::Findings;
use spry_trace::{Group, Kind};

/// Fields of the JSON report that need a group other than `sched`.
const NEEDS: [(&str, Group); 20] = [
    ("cpus[].irq_ns", Group::Irq),
    ("tasks[].interrupted", Group::Irq),
    ("interrupts", Group::Irq),
    ("edges[].bytes", Group::Ipc),
    ("graph.bytes_without_writer", Group::Ipc),
    ("channels", Group::Ipc),
    ("timers", Group::Timer),
    ("frames", Group::Timer),
    ("wakeup.timer", Group::Timer),
    ("wakeup.expiry", Group::Timer),
    ("wakeup.deadline_to_switch", Group::Timer),
    ("tasks[].wakeup.timer", Group::Timer),
    ("tasks[].wakeup.expiry", Group::Timer),
    ("wakeup.resched", Group::Resched),
    ("wakeup.switch", Group::Resched),
    ("tasks[].wakeup.resched", Group::Resched),
    ("tasks[].wakeup.switch", Group::Resched),
    ("delays.worst[].culprit_stack", Group::Stack),
    ("delays.worst[].idle", Group::Idle),
    ("marks", Group::Mark),
];

/// Fields of the JSON report that need a kind of event of group `sched` that other recorders may leave out.
const NEEDS_KIND: [(&str, Kind); 26] = [
    ("edges", Kind::Waking),
    ("graph", Kind::Waking),
    ("wakeup", Kind::Waking),
    ("frames", Kind::Waking),
    ("tasks[].wakeup", Kind::Waking),
    ("tasks[].reasons.preempted_by_own_wakee", Kind::Waking),
    ("tasks[].reasons.preempted_by_other_wakee", Kind::Waking),
    ("tasks[].reasons.end_of_slice", Kind::Waking),
    ("tasks[].reasons.other_involuntary", Kind::Waking),
    ("tasks[].reasons.thesis_voluntary", Kind::Waking),
    ("overall.dispatch_latency_ns", Kind::Wakeup),
    ("tasks[].blocked_ns", Kind::Wakeup),
    ("tasks[].runnable_wait_ns", Kind::Wakeup),
    ("tasks[].wait_share", Kind::Wakeup),
    ("tasks[].wakeups", Kind::Wakeup),
    ("tasks[].dispatch_latency_ns.after_wakeup.count", Kind::Wakeup),
    ("tasks[].dispatch_latency_ns.count", Kind::Wakeup),
    ("tasks[].dispatch_latency_ns.mean", Kind::Wakeup),
    ("tasks[].dispatch_latency_ns.max", Kind::Wakeup),
    ("tasks[].migrations", Kind::Migration),
    ("cpus[].migrations_in", Kind::Migration),
    ("cpus[].migrations_out", Kind::Migration),
    ("cpus[].ticks", Kind::Tick),
    ("tasks[].start_ns", Kind::Birth),
    ("tasks[].stolen_ns", Kind::Stolen),
    ("cpus[].stolen_ns", Kind::Stolen),
];

/// Field path to the name of the group, or of the tracepoint, that the trace lacks, in order of the paths.
pub(crate) fn missing(findings: &Findings) -> BTreeMap<&'static str, &'static str> {
    let lacking = |group| !findings.trace.groups.contains(group);
    let lacks = findings.trace.lacks;
    let groups =
        NEEDS.into_iter().filter(|&(_, group)| lacking(group)).map(|(path, group)| (path, group.name()));
    let kinds = NEEDS_KIND.into_iter().filter(|&(_, kind)| lacks.contains(kind));
    // If the parent of a path is missing, the path is not named a second time.
    let is_within = |path: &str| {
        path.starts_with("graph.")
            || path.starts_with("wakeup.")
            || path.starts_with("tasks[].wakeup.")
            || path.starts_with("edges")
    };
    let groups = groups.filter(|(path, _)| !(lacks.contains(Kind::Waking) && is_within(path)));
    groups.chain(kinds.map(|(path, kind)| (path, kind.tracepoint()))).collect()
}
