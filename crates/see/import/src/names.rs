//! Names of tasks and their processes, given in an event before the first event that mentions them.

use rustc_hash::FxHashMap;
use spry_trace::event::{Comm, Event, Rename, TaskInfo};
use spry_trace::{Tgid, Tid};

/// The largest number of stored tasks; with more, all are dropped and collected anew.
const TASKS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct KnownTask {
    /// The task's process; `None` if no record names it.
    tgid: Option<Tgid>,
    comm: Comm,
    /// Whether an event has already named the task to the reader.
    is_told: bool,
}

/// The names and processes of the tasks found so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tasks: FxHashMap<Tid, KnownTask>,
}

impl Names {
    fn make_room(&mut self) {
        if self.tasks.len() >= TASKS_MAX {
            self.tasks.clear();
        }
    }

    /// Stores a name, and a process where it is known, without an event yet.
    pub(crate) fn learn(&mut self, tid: Tid, tgid: Option<Tgid>, comm: Comm) {
        self.make_room();
        let known = self.tasks.entry(tid).or_insert(KnownTask { tgid, comm, is_told: false });
        known.tgid = tgid.or(known.tgid);
        if !known.is_told {
            known.comm = comm;
        }
    }

    /// Forgets the task that had that number, since a new task may get the number.
    pub(crate) fn forget(&mut self, tid: Tid) {
        self.tasks.remove(&tid);
    }

    /// The process of a task.
    pub(crate) fn tgid(&self, tid: Tid) -> Option<Tgid> {
        self.tasks.get(&tid).and_then(|known| known.tgid)
    }

    /// The name of a task.
    pub(crate) fn comm(&self, tid: Tid) -> Option<Comm> {
        self.tasks.get(&tid).map(|known| known.comm)
    }

    /// Moves the entry of a thread to the thread's new number.
    pub(crate) fn renumber(&mut self, old: Tid, new: Tid) {
        if let Some(known) = self.tasks.remove(&old) {
            self.tasks.insert(new, known);
        }
    }

    /// Stores a new task with this name; the event of its creation gives the name to the reader.
    pub(crate) fn tell_birth(&mut self, tid: Tid, tgid: Tgid, comm: Comm) {
        self.make_room();
        self.tasks.insert(tid, KnownTask { tgid: Some(tgid), comm, is_told: true });
    }

    /// The event that must come before an event that mentions a task, if any; `seen` is the task's name in
    /// that event.
    pub(crate) fn mention(&mut self, tid: Tid, seen: Option<Comm>) -> Option<Event> {
        if tid.is_idle() {
            return None;
        }
        if let Some(comm) = seen {
            self.make_room();
            self.tasks.entry(tid).or_insert(KnownTask { tgid: None, comm, is_told: false });
        }
        let known = self.tasks.get_mut(&tid)?;
        let comm = seen.unwrap_or(known.comm);
        let is_new_name = comm != known.comm;
        known.comm = comm;
        if !known.is_told {
            known.is_told = true;
            let tgid = known.tgid.unwrap_or(Tgid(tid.0));
            return Some(Event::Task(TaskInfo::new(tid, tgid, comm)));
        }
        is_new_name.then_some(Event::Comm(Rename { tid, comm }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_told_once_and_again_under_a_new_name() {
        let mut names = Names::default();
        names.learn(Tid(7), Some(Tgid(5)), Comm::new(b"old"));
        let task = TaskInfo::new(Tid(7), Tgid(5), Comm::new(b"new"));
        assert_eq!(names.mention(Tid(7), Some(Comm::new(b"new"))), Some(Event::Task(task)));
        assert_eq!(names.mention(Tid(7), Some(Comm::new(b"new"))), None);
        assert_eq!(names.mention(Tid(7), None), None);
        let rename = Rename { tid: Tid(7), comm: Comm::new(b"newer") };
        assert_eq!(names.mention(Tid(7), Some(Comm::new(b"newer"))), Some(Event::Comm(rename)));
    }

    #[test]
    fn a_task_that_is_renamed_first_keeps_its_process() {
        let mut names = Names::default();
        names.learn(Tid(7), Some(Tgid(5)), Comm::new(b"old"));
        let task = TaskInfo::new(Tid(7), Tgid(5), Comm::new(b"new"));
        assert_eq!(names.mention(Tid(7), Some(Comm::new(b"new"))), Some(Event::Task(task)));
    }

    #[test]
    fn idle_tasks_and_strangers_are_not_named() {
        let mut names = Names::default();
        assert_eq!(names.mention(Tid::IDLE, Some(Comm::new(b"swapper/0"))), None);
        assert_eq!(names.mention(Tid(3), None), None);
    }

    #[test]
    fn a_reused_number_is_a_new_task() {
        let mut names = Names::default();
        names.mention(Tid(7), Some(Comm::new(b"old")));
        names.forget(Tid(7));
        assert!(matches!(names.mention(Tid(7), Some(Comm::new(b"new"))), Some(Event::Task(_))));
    }
}
