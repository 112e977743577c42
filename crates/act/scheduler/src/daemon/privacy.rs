//! Reduces answers to an ordinary user's permitted data: the caller's own part. The rest is left out or null.
//!
//! The functions are pure; [`Ownership`] decides which data belongs to the caller. An answer that was made
//! from the caller's own data passes unchanged, except for measurements of the daemon and the process of a
//! device. Anything else in an answer is removed here.

use spry_control::{Explanation, Scope, Status, Step, TaskClass, TaskStatus};

/// Decides which processes and devices belong to the caller.
pub trait Ownership {
    /// Whether a process is entirely the caller's.
    fn has_process(&self, tgid: u32) -> bool;

    /// Whether a device is the caller's. `name` is its name in the list of devices or on the
    /// path to a process.
    fn has_device(&self, name: &str) -> bool;
}

/// The text that ordinary users see in place of the kernel's reason, which may name processes.
const REASON: &str = "the reason may name processes, and is root's to see";

/// Reduces a status to the caller's part. `for_all` are the warnings without data on any user.
pub fn status(mut status: Status, for_all: Vec<String>, own: &impl Ownership) -> Status {
    status.scope = Scope::Own;
    status.tasks.retain(|task| own.has_process(task.tgid));
    status.tasks.iter_mut().for_each(|task| redact(task, own));
    status.devices.retain(|device| own.has_device(&device.name));
    status.warnings = for_all;
    status.policy_ns_last = None;
    status.housekeeping_ns_longest = None;
    status.ticks = None;
    status.timer_slack = None;
    status.lost_edges = None;
    status.daemon_cpu_share = None;
    status.graph = None;
    (status.rounds.early, status.rounds.longest_ns) = (None, None);
    if let Some(ejection) = &mut status.acting.ejected {
        REASON.clone_into(&mut ejection.reason);
    }
    status
}

/// Reduces an explanation to the caller's part; `None` if the process is not the caller's.
pub fn explanation(mut explanation: Explanation, own: &impl Ownership) -> Option<Explanation> {
    if !own.has_process(explanation.task.tgid) {
        return None;
    }
    explanation.scope = Scope::Own;
    redact(&mut explanation.task, own);
    explanation.in_use &= explanation.task.level.is_some();
    let is_earned = explanation.credits_of.is_some_and(|tgid| own.has_process(tgid));
    if !explanation.in_use || !is_earned {
        (explanation.credits_of, explanation.credits) = (None, Vec::new());
    }
    for list in [&mut explanation.depends_on, &mut explanation.needed_by].into_iter().flatten() {
        list.retain(|neighbour| own.has_process(neighbour.tgid));
    }
    Some(explanation)
}

/// Reduces the data on the caller's process to data from the caller's own devices and processes.
fn redact(task: &mut TaskStatus, own: &impl Ownership) {
    if is_own_way(&task.path, own) {
        let others = |step: &&mut Step| step.tgid.is_some_and(|tgid| !own.has_process(tgid));
        for step in task.path.iter_mut().filter(others) {
            (step.level, step.weight, step.input_per_s, step.output_per_s) = (None, None, None, None);
        }
        return;
    }
    if task.class == TaskClass::Interactive && !task.by_hand {
        task.class = TaskClass::Other;
    }
    (task.level, task.distance, task.shortcut, task.quantum_ms) = (None, None, None, None);
    (task.input_per_s, task.output_per_s, task.frames_per_s) = (None, None, None);
    task.path = Vec::new();
}

/// Whether all steps on the path to a process are the caller's: the device, the processes, and the device's
/// server, whichever user runs it.
fn is_own_way(path: &[Step], own: &impl Ownership) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    let is_own = |step: &Step| step.tgid.is_some_and(|tgid| own.has_process(tgid));
    match first.tgid {
        Some(_) => is_own(first) && rest.iter().all(is_own),
        None => match rest {
            [] => false,
            [server, after @ ..] => {
                let is_server = is_own(server) || (!after.is_empty() && server.tgid.is_some());
                own.has_device(&first.name) && is_server && after.iter().all(is_own)
            }
        },
    }
}

#[cfg(test)]
mod tests;
