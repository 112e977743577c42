//! Removes the figures from the findings that the trace cannot give, since it lacks a kind of event.

use spry_trace::Kind;

use crate::findings::{CpuFinding, Findings, TaskFinding};

/// Makes every figure `None` that needs a kind of event that the trace lacks.
pub(crate) fn withhold(findings: &mut Findings) {
    for kind in findings.trace.lacks.iter() {
        findings.tasks.iter_mut().for_each(|task| withhold_of_task(task, kind));
        findings.cpus.iter_mut().for_each(|cpu| withhold_of_cpu(cpu, kind));
        match kind {
            // The thread that a timer woke is known from its waking.
            Kind::Waking => (findings.wakeup, findings.graph, findings.frames) = (None, None, None),
            Kind::Wakeup => findings.overall.dispatch = None,
            Kind::Migration | Kind::Tick | Kind::Birth | Kind::Stolen => {}
        }
    }
}

fn withhold_of_task(task: &mut TaskFinding, kind: Kind) {
    match kind {
        Kind::Waking => {
            task.wakeup = None;
            if let Some(reasons) = &mut task.reasons {
                reasons.by_wakings = None;
            }
        }
        Kind::Wakeup => {
            // Waits after preemptions and the last sleep are seen, but they are not all of the time.
            let seen_ns = [task.runnable_wait_ns.take(), task.blocked_ns.take()];
            task.unknown_ns += seen_ns.into_iter().flatten().sum::<u64>();
            task.wakeups = None;
            if let Some(dispatch) = &mut task.dispatch {
                (dispatch.wakeup, dispatch.all, dispatch.wait_share) = (None, None, None);
            }
        }
        Kind::Migration => task.migrations = None,
        Kind::Birth => task.start_ns = None,
        Kind::Stolen => task.stolen_ns = None,
        Kind::Tick => {}
    }
}

fn withhold_of_cpu(cpu: &mut CpuFinding, kind: Kind) {
    match kind {
        Kind::Migration => (cpu.migrations_in, cpu.migrations_out) = (None, None),
        Kind::Tick => cpu.ticks = None,
        Kind::Stolen => cpu.stolen_ns = None,
        Kind::Waking | Kind::Wakeup | Kind::Birth => {}
    }
}
