//! Which fields are null because the trace lacks a group of events.

use std::collections::BTreeMap;

use spry_analysis::findings::Findings;
use spry_trace::Group;

/// Fields of the JSON report that need a group other than `sched`.
const NEEDS: [(&str, Group); 18] = [
    ("cpus[].irq_ns", Group::Irq),
    ("tasks[].interrupted", Group::Irq),
    ("interrupts", Group::Irq),
    ("edges[].bytes", Group::Ipc),
    ("graph.bytes_without_writer", Group::Ipc),
    ("channels", Group::Ipc),
    ("timers", Group::Timer),
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
    ("marks", Group::Mark),
];

/// Field path to the name of the group that the trace lacks, in order of the paths.
pub(crate) fn missing(findings: &Findings) -> BTreeMap<&'static str, &'static str> {
    let lacking = |group| !findings.trace.groups.contains(group);
    NEEDS.into_iter().filter(|&(_, group)| lacking(group)).map(|(path, group)| (path, group.name())).collect()
}
