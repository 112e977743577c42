//! Restores the settings that a thread had before Spry changed it, except settings that another program
//! has changed since.

use std::io;

use spry_sys::schedule;

use super::settings::{DEADLINE, OTHER, ROUND_ROBIN, Settings, TaskId, set_slack_ns};

/// The settings of a display server that the guardian has demoted to an ordinary task with the greatest
/// weight. The server took too much of the CPU as a real-time task.
pub const DEMOTED: Settings =
    Settings { policy: OTHER, reset_on_fork: 1, nice: -20, priority: 0, slice_ns: 0, slack_ns: 0 };

/// The result of undoing a change to a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum UndoResult {
    /// All settings are as before the change.
    Restored,
    /// Another program had changed a setting since; that setting was kept.
    Theirs,
    /// The thread has exited.
    Gone,
}

/// The settings that a thread shall have after the undoing. Each setting is as in `before`, unless its
/// present value is in none of `ours`.
pub fn settings_back(now: Settings, before: Settings, ours: &[Settings]) -> Settings {
    let mut then = now;
    if ours.iter().any(|our| our.policy == now.policy && our.priority == now.priority) {
        then.policy = before.policy;
        then.priority = before.priority;
    }
    if ours.iter().any(|our| our.nice == now.nice) {
        then.nice = before.nice;
    }
    if ours.iter().any(|our| our.reset_on_fork == now.reset_on_fork) {
        then.reset_on_fork = before.reset_on_fork;
    }
    if ours.iter().any(|our| our.slice_ns == now.slice_ns) {
        then.slice_ns = before.slice_ns;
    }
    if ours.iter().any(|our| our.slack_ns == now.slack_ns) {
        then.slack_ns = before.slack_ns;
    }
    then
}

/// Restores the settings `before` of a thread. `ours` are the settings that the thread may have from Spry:
/// two sets, since a change may have been under way.
pub fn undo(id: TaskId, before: Settings, ours: [Settings; 2], base_slice_ns: u64) -> UndoResult {
    if !id.is_alive() {
        return UndoResult::Gone;
    }
    let Ok(now) = Settings::of(id, base_slice_ns) else { return UndoResult::Gone };
    let was_raised = ours.iter().any(|our| our.policy == ROUND_ROBIN);
    let was_real_time = was_raised || ours.iter().any(|our| our.policy == DEADLINE);
    let then = if was_raised {
        settings_back(now, before, &[before, ours[0], ours[1], DEMOTED])
    } else {
        settings_back(now, before, &[before, ours[0], ours[1]])
    };
    if then.without_slack() != now.without_slack() && give(then, now, id).is_err() {
        return if id.is_alive() { UndoResult::Theirs } else { UndoResult::Gone };
    }
    // The kernel discards the slack of a real-time task, and gives an ordinary task the usual slack again.
    if (then.slack_ns != now.slack_ns || was_real_time) && then.slack_ns != 0 {
        _ = set_slack_ns(id, then.slack_ns);
    }
    if then == before { UndoResult::Restored } else { UndoResult::Theirs }
}

/// Gives a thread all settings. Without privilege the kernel does not let the reset-on-fork flag be cleared;
/// then all other settings are given.
fn give(then: Settings, now: Settings, id: TaskId) -> io::Result<()> {
    if then.policy == DEADLINE {
        // If the thread has got a reservation since, it keeps it. Only its nice value is given back.
        return schedule::set_nice(id.tid, then.nice);
    }
    let rest = Settings { reset_on_fork: now.reset_on_fork, ..then };
    then.schedule(id.tid).or_else(|_| rest.schedule(id.tid))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Settings =
        Settings { policy: OTHER, reset_on_fork: 0, nice: 0, priority: 0, slice_ns: 0, slack_ns: 50_000 };
    const OURS: Settings =
        Settings { reset_on_fork: 1, nice: -18, slice_ns: 100_000, slack_ns: 1_000, ..BEFORE };

    #[test]
    fn own_settings_are_undone_and_those_of_others_stay() {
        assert_eq!(settings_back(OURS, BEFORE, &[OURS]), BEFORE);
        let reniced = Settings { nice: 5, ..OURS };
        assert_eq!(settings_back(reniced, BEFORE, &[OURS]), Settings { nice: 5, ..BEFORE });
        let real_time = Settings { policy: ROUND_ROBIN, priority: 7, ..OURS };
        let expected = Settings { policy: ROUND_ROBIN, priority: 7, ..BEFORE };
        assert_eq!(settings_back(real_time, BEFORE, &[OURS]), expected);
    }

    #[test]
    fn a_reserved_thread_s_settings_return_with_its_later_nice() {
        let ours = Settings { policy: DEADLINE, reset_on_fork: 1, slack_ns: 0, ..BEFORE };
        assert_eq!(settings_back(ours, BEFORE, &[BEFORE, ours]), BEFORE);
        let reniced = Settings { nice: 7, ..ours };
        assert_eq!(settings_back(reniced, BEFORE, &[BEFORE, ours]), Settings { nice: 7, ..BEFORE });
    }

    #[test]
    fn a_change_under_way_is_undone_from_either_side() {
        let next = Settings { nice: -12, slice_ns: 400_000, ..OURS };
        for now in [OURS, next] {
            assert_eq!(settings_back(now, BEFORE, &[OURS, next]), BEFORE);
        }
    }
}
