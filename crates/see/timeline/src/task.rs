//! Tasks by incarnation, with their names, processes and present state.

use std::collections::HashMap;
use std::num::NonZeroU16;

use spry_trace::event::{Comm, Context, Numbers, Policy, PrevState, TaskInfo};
use spry_trace::{Tgid, Tid};

use crate::cpu::Holder;
use crate::interval::WaitCause;
use crate::machine::PendingWaking;

/// One incarnation of a tid: a reused tid gets a new index. Indices count up from 0 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskIndex(u32);

impl TaskIndex {
    /// The index as a position in a list.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// One incarnation of a tgid. Indices count up from 0 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessIndex(u32);

impl ProcessIndex {
    /// The index as a position in a list.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// A task's present state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// The state is not known: no event has shown it yet, or events are missing.
    Unknown,
    /// The task has a CPU.
    Running,
    /// The task is on a run queue without a CPU.
    Waiting,
    /// The task is blocked, or was created and has not been woken yet.
    Blocked,
    /// The task has left the CPU for the last time.
    Ended,
}

/// One task. The fields that frequent events change come first and fill one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct TimelineTask {
    /// The start of the present state, ns.
    pub(crate) since_ns: u64,
    /// While the task waits: time of its waking, ns; for a wait without a waking, the start of the wait.
    pub(crate) waking_ns: u64,
    /// The time of a waking that no wake-up has followed yet, ns; [`NEVER`] if there is none.
    pending_ns: u64,
    /// The cause of the wait; valid only while the task waits.
    pub(crate) cause: WaitCause,
    pending_by: Holder,
    pub(crate) tid: Tid,
    pub(crate) process: ProcessIndex,
    /// The CPU on which the task runs, the CPU of the queue in which it waits, or its last CPU.
    pub(crate) cpu: u16,
    pub(crate) prio: u8,
    pending_context: Context,
    pub(crate) state: TaskState,
    /// The state in which the task blocked; valid only while the task is blocked.
    pub(crate) slept_in: Option<PrevState>,
    /// Whether the state is only a guess: an event may then override it without contradiction.
    pub(crate) guessed: bool,
    /// Whether any event was about the task; a record of its names alone does not count.
    pub(crate) touched: bool,
    pub(crate) named: bool,
    /// Whether the task has moved to another CPU since it began to wait.
    pub(crate) has_moved: bool,
    /// The CPU that the task left and the time of the move, ns; valid only if `has_moved`.
    pub(crate) moved: (u16, u64),
    pub(crate) comm: Comm,
    pub(crate) policy: Option<Policy>,
    /// The number of CPUs on which the task may run.
    pub(crate) bound_to: Option<NonZeroU16>,
    /// The time of creation, ns; [`NEVER`] if the task was created before the trace.
    born_ns: u64,
    /// The time at which the task left the CPU for the last time, ns; [`NEVER`] if it has not ended.
    ended_ns: u64,
}

/// Stands for a time that has not come or is not known.
const NEVER: u64 = u64::MAX;
/// Stands for a priority that no event has shown yet; the kernel gives no task this priority.
pub(crate) const NO_PRIO: u8 = 254;
const _: () = assert!(size_of::<TimelineTask>() == 128 && std::mem::offset_of!(TimelineTask, has_moved) < 64);

impl TimelineTask {
    /// The thread's number.
    pub const fn tid(&self) -> Tid {
        self.tid
    }

    /// The task's last name.
    pub const fn comm(&self) -> Comm {
        self.comm
    }

    /// The task's process.
    pub const fn process(&self) -> ProcessIndex {
        self.process
    }

    /// The task's present state.
    pub const fn state(&self) -> TaskState {
        self.state
    }

    /// The start of the present state, ns.
    pub const fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// The cause of the wait; `None` if the task does not wait.
    pub fn wait_cause(&self) -> Option<WaitCause> {
        (self.state == TaskState::Waiting).then_some(self.cause)
    }

    /// Time of the task's waking, ns; the start of a wait without a waking; `None` if the task does not wait.
    pub fn waking_ns(&self) -> Option<u64> {
        (self.state == TaskState::Waiting).then_some(self.waking_ns)
    }

    /// The time of creation, ns; `None` if the task was created before the trace.
    pub const fn born_ns(&self) -> Option<u64> {
        if self.born_ns == NEVER { None } else { Some(self.born_ns) }
    }

    /// The time at which the task left the CPU for the last time, ns; `None` if it has not ended.
    pub const fn ended_ns(&self) -> Option<u64> {
        if self.ended_ns == NEVER { None } else { Some(self.ended_ns) }
    }

    /// The kernel's priority at the task's last switch or change of priority; `None` if neither was seen.
    pub const fn prio(&self) -> Option<u8> {
        if self.prio == NO_PRIO { None } else { Some(self.prio) }
    }

    /// The task's policy; `None` if the trace shows no change of policy.
    pub const fn policy(&self) -> Option<Policy> {
        self.policy
    }

    /// The number of CPUs on which the task may run; `None` if the trace does not say so, or if the task may
    /// run on all CPUs.
    pub const fn bound_to(&self) -> Option<NonZeroU16> {
        self.bound_to
    }

    /// A waking that no wake-up has followed yet.
    #[inline]
    pub(crate) fn pending(&self) -> Option<PendingWaking> {
        let (time_ns, by, context) = (self.pending_ns, self.pending_by, self.pending_context);
        (time_ns != NEVER).then_some(PendingWaking { time_ns, by, context })
    }

    #[inline]
    pub(crate) fn set_pending(&mut self, pending: PendingWaking) {
        self.pending_ns = pending.time_ns;
        self.pending_by = pending.by;
        self.pending_context = pending.context;
    }

    #[inline]
    pub(crate) fn clear_pending(&mut self) {
        self.pending_ns = NEVER;
    }

    pub(crate) fn end_at(&mut self, time_ns: u64) {
        self.ended_ns = time_ns;
    }

    /// Whether any event was about the task; a record of its names alone does not count.
    pub const fn is_seen(&self) -> bool {
        self.touched
    }
}

/// A process that appears in the trace.
#[derive(Clone, Copy, Debug)]
pub struct TimelineProcess {
    /// The process's number.
    pub tgid: Tgid,
    /// The leader of the process, or its first known thread.
    pub leader: TaskIndex,
}

/// The kernel's limit of tids (`PID_MAX_LIMIT`).
const TID_LIMIT: usize = 1 << 22;

/// All tasks, and the present incarnation of each tid.
#[derive(Debug)]
pub(crate) struct Tasks {
    list: Vec<TimelineTask>,
    processes: Vec<TimelineProcess>,
    /// For each tid, the index of its present incarnation plus 1, or 0. Pages of this table that are all 0
    /// take no memory.
    by_tid: Box<[u32]>,
    /// The same as `by_tid`, for tids beyond the kernel's limit, which no kernel gives out.
    beyond: HashMap<Tid, u32>,
    by_tgid: HashMap<Tgid, ProcessIndex>,
    /// Names that the trace restated for a tid after its incarnation had ended: they may belong to the tid's
    /// next incarnation.
    restated: HashMap<Tid, TaskInfo>,
    /// The numbers of tasks in the recorder's PID namespace, if it had one of its own.
    inner: HashMap<TaskIndex, Numbers>,
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks {
            list: Vec::new(),
            processes: Vec::new(),
            by_tid: vec![0; TID_LIMIT].into_boxed_slice(),
            beyond: HashMap::new(),
            by_tgid: HashMap::new(),
            restated: HashMap::new(),
            inner: HashMap::new(),
        }
    }

    pub(crate) fn list(&self) -> &[TimelineTask] {
        &self.list
    }

    pub(crate) fn processes(&self) -> &[TimelineProcess] {
        &self.processes
    }

    #[inline]
    pub(crate) fn get(&self, index: TaskIndex) -> &TimelineTask {
        &self.list[index.at()]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: TaskIndex) -> &mut TimelineTask {
        &mut self.list[index.at()]
    }

    pub(crate) fn index_at(&self, position: usize) -> Option<TaskIndex> {
        (position < self.list.len()).then_some(TaskIndex(position as u32))
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = TaskIndex> + use<> {
        (0..self.list.len() as u32).map(TaskIndex)
    }

    /// The present incarnation of a tid, ended or not.
    #[inline]
    pub(crate) fn find(&self, tid: Tid) -> Option<TaskIndex> {
        let entry = match self.by_tid.get(tid.0 as usize) {
            Some(&entry) => entry,
            None => self.beyond.get(&tid).copied().unwrap_or(0),
        };
        entry.checked_sub(1).map(TaskIndex)
    }

    /// Makes the tid mean the incarnation `index`, or none.
    pub(crate) fn bind(&mut self, tid: Tid, index: Option<TaskIndex>) {
        let entry = index.map_or(0, |index| index.0 + 1);
        match self.by_tid.get_mut(tid.0 as usize) {
            Some(slot) => *slot = entry,
            None => _ = self.beyond.insert(tid, entry),
        }
    }

    /// Returns the living incarnation of a tid that an event names; makes a new incarnation if there is none.
    #[inline]
    pub(crate) fn touch(&mut self, tid: Tid, time_ns: u64) -> TaskIndex {
        if let Some(index) = self.find(tid) {
            let task = self.get_mut(index);
            if task.state != TaskState::Ended {
                task.touched = true;
                return index;
            }
        }
        self.revive(tid, time_ns)
    }

    #[cold]
    fn revive(&mut self, tid: Tid, time_ns: u64) -> TaskIndex {
        let born = self.find(tid).map(|_| time_ns);
        let index = match self.restated.remove(&tid) {
            Some(info) => {
                let index = self.create(tid, info.tgid, info.comm, born);
                self.number(index, info.inner);
                index
            }
            None => self.create(tid, Tgid(tid.0), Comm::default(), born),
        };
        let task = self.get_mut(index);
        task.named = task.comm != Comm::default();
        task.touched = true;
        index
    }

    /// Makes a new incarnation of a tid.
    pub(crate) fn create(&mut self, tid: Tid, tgid: Tgid, comm: Comm, born_ns: Option<u64>) -> TaskIndex {
        let index = TaskIndex(u32::try_from(self.list.len()).expect("fewer tasks than bytes of memory"));
        if tgid.0 == tid.0 && born_ns.is_some() {
            self.by_tgid.remove(&tgid);
        }
        let process = self.process(tgid, index);
        if self.list.len() == self.list.capacity() {
            self.list.reserve_exact(self.list.len() / 4 + 64);
        }
        self.list.push(TimelineTask {
            since_ns: born_ns.unwrap_or(0),
            waking_ns: 0,
            pending_ns: NEVER,
            cause: WaitCause::Unknown,
            pending_by: Holder::Unknown,
            tid,
            process,
            cpu: 0,
            prio: NO_PRIO,
            pending_context: Context::Unknown,
            state: TaskState::Unknown,
            slept_in: None,
            guessed: true,
            touched: false,
            named: true,
            has_moved: false,
            moved: (0, 0),
            comm,
            policy: None,
            bound_to: None,
            born_ns: born_ns.unwrap_or(NEVER),
            ended_ns: NEVER,
        });
        self.bind(tid, Some(index));
        index
    }

    fn process(&mut self, tgid: Tgid, thread: TaskIndex) -> ProcessIndex {
        let processes = &mut self.processes;
        *self.by_tgid.entry(tgid).or_insert_with(|| {
            processes.push(TimelineProcess { tgid, leader: thread });
            ProcessIndex(processes.len() as u32 - 1)
        })
    }

    /// Gives a task its process; the leader is the thread with the tgid as its tid.
    pub(crate) fn join(&mut self, index: TaskIndex, tgid: Tgid) {
        let process = self.process(tgid, index);
        let task = self.get_mut(index);
        task.process = process;
        if task.tid.0 == tgid.0 {
            self.processes[process.at()].leader = index;
        }
    }

    pub(crate) fn tgid(&self, index: TaskIndex) -> Tgid {
        self.processes[self.get(index).process.at()].tgid
    }

    /// The task's numbers in the recorder's PID namespace.
    pub(crate) fn inner(&self, index: TaskIndex) -> Option<Numbers> {
        self.inner.get(&index).copied()
    }

    fn number(&mut self, index: TaskIndex, inner: Option<Numbers>) {
        if let Some(inner) = inner {
            self.inner.entry(index).or_insert(inner);
        }
    }

    /// Gives a task the names that the trace restates, unless the task has names already.
    pub(crate) fn describe(&mut self, info: &TaskInfo) {
        if info.tid.is_idle() {
            return;
        }
        let Some(index) = self.find(info.tid) else {
            let index = self.create(info.tid, info.tgid, info.comm, None);
            self.number(index, info.inner);
            return self.join(index, info.tgid);
        };
        if self.get(index).state == TaskState::Ended {
            self.restated.insert(info.tid, *info);
            return;
        }
        self.number(index, info.inner);
        let task = self.get_mut(index);
        if !task.named {
            task.named = true;
            task.comm = info.comm;
            self.join(index, info.tgid);
        }
    }

    /// The task that a fork has made.
    pub(crate) fn fork(&mut self, tid: Tid, tgid: Tgid, comm: Comm, time_ns: u64) -> TaskIndex {
        self.restated.remove(&tid);
        let untouched = self.find(tid).filter(|&index| !self.get(index).touched);
        let index = match untouched {
            // So far the trace has only stated the child's names, for this very fork.
            Some(index) => {
                let known = self.by_tgid.get(&tgid).map(|process| self.processes[process.at()].leader);
                if tgid.0 == tid.0 && known != Some(index) {
                    self.by_tgid.remove(&tgid);
                }
                self.join(index, tgid);
                let task = self.get_mut(index);
                task.comm = comm;
                task.born_ns = time_ns;
                index
            }
            None => {
                let index = self.create(tid, tgid, comm, Some(time_ns));
                self.join(index, tgid);
                index
            }
        };
        self.get_mut(index).touched = true;
        index
    }
}
