//! Undoes all changes in a journal. The daemon does so when it ends in order, the guardian after the daemon
//! was killed, and the next daemon if both were killed.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::journal::{GroupChange, GroupKind, Journal};
use super::settings::{
    BACKGROUND_SLACK_NS, IN_USE_SLACK_NS, Settings, TaskId, USUAL_SLACK_NS, set_slack_ns, slack_ns, stat_of,
};
use super::undo::{UndoResult, undo};

/// The number of attempts to move the tasks out of a directory, and the time between two attempts. Tasks in
/// it may fork meanwhile.
const EMPTYING: u32 = 1_000;
const EMPTYING_EVERY: Duration = Duration::from_millis(2);

/// The numbers of changes of a journal that were undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RestoreCounts {
    /// Threads that have their former settings again.
    pub restored: usize,
    /// Threads of which another program had changed a setting since; that setting was kept.
    pub theirs: usize,
    /// Threads that had exited.
    pub gone: usize,
    /// Groups that have their former settings again.
    pub groups: usize,
}

/// Undoes all changes in the journal, and removes their entries.
pub fn restore_all(journal: &mut Journal) -> RestoreCounts {
    let mut count = RestoreCounts::default();
    let base_slice_ns = journal.base_slice_ns();
    let tasks: Vec<_> = journal.tasks().collect();
    let mut slacks: Vec<u64> = Vec::new();
    for (at, task) in tasks {
        slacks.extend(
            task.ours.iter().map(|ours| ours.slack_ns).filter(|&slack| slack != task.before.slack_ns),
        );
        match undo(task.id, task.before, task.ours, base_slice_ns) {
            UndoResult::Restored => count.restored += 1,
            UndoResult::Theirs => count.theirs += 1,
            UndoResult::Gone => count.gone += 1,
        }
        journal.task_end(at);
    }
    // Children may have the slack of a class of which the journal has no thread left.
    if slacks.contains(&IN_USE_SLACK_NS) || slacks.contains(&BACKGROUND_SLACK_NS) {
        slacks.extend([IN_USE_SLACK_NS, BACKGROUND_SLACK_NS]);
    }
    slacks.sort_unstable();
    slacks.dedup();
    if !slacks.is_empty() {
        take_inherited_slack(&slacks, journal.since());
    }
    let groups: Vec<_> = journal.groups().collect();
    for (at, group) in groups {
        undo_group(&group);
        journal.group_end(at);
        count.groups += 1;
    }
    for watched in journal.watched() {
        watched.tgid.store(0, std::sync::atomic::Ordering::Release);
    }
    count
}

/// Resets the timer slack of threads that inherited it from a thread with Spry's slack. Children inherit
/// slack whatever flags the parent has.
///
/// A thread with exactly Spry's slack was forked by such a thread, since no program would choose this number.
/// An ordinary task with slack 0 was forked by a real-time task.
fn take_inherited_slack(slacks: &[u64], since: u64) {
    let is_ordinary = |tid| Settings::scheduling_of(tid, 0).is_ok_and(|now| !now.is_real_time());
    for (tgid, tid) in all_threads() {
        let id = TaskId { tid, tgid, start: 0 };
        let inherited = slack_ns(id).is_ok_and(|slack| slacks.contains(&slack)) && is_ordinary(tid);
        if inherited && stat_of(tgid, tid).is_ok_and(|stat| stat.start >= since && !stat.is_kernel) {
            _ = set_slack_ns(id, USUAL_SLACK_NS);
        }
    }
}

/// The names of a directory's entries that are numbers, such as the processes in `/proc`.
pub(crate) fn numbers_in(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn all_threads() -> impl Iterator<Item = (u32, u32)> {
    let threads = |tgid| numbers_in(&format!("/proc/{tgid}/task")).into_iter().map(move |tid| (tgid, tid));
    numbers_in("/proc").into_iter().flat_map(threads)
}

/// Undoes a change to a group, if the group still has the value that Spry set.
pub fn undo_group(change: &GroupChange) {
    match change.kind {
        GroupKind::Weight => {
            if number_in(&change.path) == Some(change.ours) {
                _ = fs::write(&change.path, change.before.to_string());
            }
        }
        GroupKind::Autogroup => {
            // The session may outlive the process that names it, so another member is looked for.
            let same =
                |tgid: &u32| autogroup_of(*tgid).is_some_and(|(name, _)| Path::new(&name) == change.path);
            let named = Some(change.id.tgid).filter(same);
            let member = named.or_else(|| numbers_in("/proc").into_iter().find(same));
            let ours =
                |tgid: &u32| autogroup_of(*tgid).is_some_and(|(_, nice)| i64::from(nice) == change.ours);
            if let Some(tgid) = member.filter(ours) {
                _ = fs::write(format!("/proc/{tgid}/autogroup"), change.before.to_string());
            }
        }
        GroupKind::Directory => empty_and_remove(&change.path),
    }
}

/// The name and nice value of the kernel's scheduling group for a process' session. `None` if the kernel has
/// none for this process.
pub fn autogroup_of(tgid: u32) -> Option<(String, i32)> {
    let text = fs::read_to_string(format!("/proc/{tgid}/autogroup")).ok()?;
    let (name, nice) = text.trim().split_once(" nice ")?;
    Some((name.to_owned(), nice.parse().ok()?))
}

/// The number in a file; `None` if there is no such file or it has no number.
pub fn number_in(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Moves all processes of a group that Spry has made to the group's parent, and removes the group.
fn empty_and_remove(path: &Path) {
    let Some(parent) = path.parent() else { return };
    // Version 1 of control groups has a file of threads, in a hierarchy for the CPU alone. Version 2
    // moves whole processes.
    let file = if path.join("tasks").exists() { "tasks" } else { "cgroup.procs" };
    for _ in 0..EMPTYING {
        let members = fs::read_to_string(path.join(file)).unwrap_or_default();
        for member in members.lines() {
            _ = fs::write(parent.join(file), member);
        }
        if !path.exists() || fs::remove_dir(path).is_ok() {
            return;
        }
        // A process that is just exiting is in no list, but until its end the directory cannot be removed.
        sleep(EMPTYING_EVERY);
    }
}
