//! The state machine: takes events one by one and reports intervals and resolved events to an observer.

use std::sync::Arc;

use serde::Serialize;
use spry_trace::event::{Context, Event, Ipc, Limit, Mark, Migrate, Numbers, Stack, TimerExpire};
use spry_trace::{Header, Stamped, Tgid, Tid};

use crate::cpu::{Holder, TimelineCpu};
use crate::interval::{Cut, InterruptKind, Migrated, Observer};
use crate::task::{TaskIndex, TaskState, Tasks, TimelineProcess, TimelineTask};

/// The part of a trace that is reported, in ns of the trace's clock. Intervals are cut to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The start, inclusive, ns.
    pub from_ns: u64,
    /// The end, exclusive, ns.
    pub to_ns: u64,
}

/// Counts of events that contradict the known state. Some make a task's or a CPU's state unknown for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Oddities {
    /// A switch away from a task that was not known to have the CPU.
    pub missing_switch_in: u64,
    /// A switch to a task that was still on another CPU.
    pub missing_switch_out: u64,
    /// A blocked task got a CPU without waking or wake-up.
    pub missing_wakeup: u64,
    /// A task got a CPU after a waking but without a wake-up.
    pub waking_without_wakeup: u64,
    /// A blocked task's wake-up without a waking before it.
    pub wakeup_without_waking: u64,
    /// A wake-up of a task that had a CPU or already waited for one.
    pub wakeup_of_runnable: u64,
    /// A fork that names a tid still in use: the exit of the tid's earlier task was not seen.
    pub reused_alive: u64,
    /// An event that is older than the event before it; the time line takes both as of the same time.
    pub backwards: u64,
}

/// A waking that no wake-up has followed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingWaking {
    pub(crate) time_ns: u64,
    pub(crate) by: Holder,
    pub(crate) context: Context,
}

/// Every CPU's and every task's state.
///
/// ```
/// # use spry_timeline::{Observer, Timeline, Window, Ran};
/// struct Sum(u64);
/// impl Observer for Sum {
///     fn ran(&mut self, _: &Timeline, ran: &Ran) {
///         self.0 += ran.wall_ns();
///     }
/// }
/// let header = spry_trace::Header { cpus: 1, ..Default::default() };
/// let mut timeline = Timeline::new(&header, Window { from_ns: 0, to_ns: u64::MAX });
/// timeline.finish(1_000, &mut Sum(0));
/// ```
#[derive(Debug)]
pub struct Timeline {
    pub(crate) cpus: Vec<TimelineCpu>,
    pub(crate) tasks: Tasks,
    /// The limits of groups, by index.
    pub(crate) limits: Vec<Arc<Limit>>,
    pub(crate) window: Window,
    /// The start of the time without missing events, ns: the start of recording, or the end of the latest
    /// loss. A task that appears for the first time has been in its state since then.
    pub(crate) whole_since_ns: u64,
    pub(crate) now_ns: u64,
    pub(crate) odd: Oddities,
}

impl Timeline {
    /// A time line for the trace with this header. A CPU that is not among the header's is added at
    /// its first event.
    pub fn new(header: &Header, window: Window) -> Timeline {
        let start_ns = header.start_ns;
        Timeline {
            cpus: (0..header.cpus).map(|_| TimelineCpu::new(start_ns)).collect(),
            tasks: Tasks::new(),
            limits: Vec::new(),
            window: Window { from_ns: window.from_ns.max(start_ns), ..window },
            whole_since_ns: start_ns,
            now_ns: start_ns,
            odd: Oddities::default(),
        }
    }

    /// All tasks, by index.
    pub fn tasks(&self) -> &[TimelineTask] {
        self.tasks.list()
    }

    /// Every task's index.
    pub fn task_indices(&self) -> impl Iterator<Item = TaskIndex> + use<> {
        self.tasks.indices()
    }

    /// The index of the task at a position in [`Timeline::tasks`]; `None` beyond its end.
    pub fn index_at(&self, position: usize) -> Option<TaskIndex> {
        self.tasks.index_at(position)
    }

    /// The present state of a task.
    #[inline]
    pub fn task(&self, index: TaskIndex) -> &TimelineTask {
        self.tasks.get(index)
    }

    /// The present task of a tid; `None` if no event has named the tid.
    #[inline]
    pub fn find(&self, tid: Tid) -> Option<TaskIndex> {
        self.tasks.find(tid)
    }

    /// All processes, by index.
    pub fn processes(&self) -> &[TimelineProcess] {
        self.tasks.processes()
    }

    /// The number of a task's process.
    pub fn tgid(&self, index: TaskIndex) -> Tgid {
        self.tasks.tgid(index)
    }

    /// A task's numbers in the recorder's PID namespace; `None` if the recorder was in the outermost one, or
    /// the task was outside the recorder's.
    pub fn inner(&self, index: TaskIndex) -> Option<Numbers> {
        self.tasks.inner(index)
    }

    /// All CPUs, by number.
    pub fn cpus(&self) -> &[TimelineCpu] {
        &self.cpus
    }

    /// The time of the latest event, ns.
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The part of the trace that the time line reports.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The counts of events that contradicted the known state, by kind.
    pub const fn oddities(&self) -> Oddities {
        self.odd
    }

    /// Takes the next event. Events at or after the window's end must not be given.
    #[inline]
    pub fn push(&mut self, event: &Stamped, to: &mut impl Observer) {
        let cpu = event.cpu;
        if usize::from(cpu) >= self.cpus.len() {
            self.more_cpus(cpu, event.time_ns);
        }
        if event.time_ns >= self.now_ns {
            self.now_ns = event.time_ns;
        } else if !matches!(event.event, Event::Task(_)) {
            self.odd.backwards += 1;
        }
        match &event.event {
            Event::Switch(switch) => self.switch(cpu, switch, to),
            Event::Waking(waking) => self.waking(cpu, waking, to),
            Event::Wakeup(wakeup) => self.wakeup(wakeup, to),
            Event::Fork(fork) => self.fork(fork),
            Event::Exec(exec) => self.exec(cpu, exec),
            Event::Exit(exit) => _ = self.tasks.touch(exit.tid, self.now_ns),
            Event::Comm(rename) => self.rename(cpu, rename),
            Event::Prio(prio) => self.prio(prio),
            Event::Migrate(migrate) => self.migrate(migrate, to),
            Event::Tick(_) if self.in_window() => self.tick(cpu, to),
            Event::IrqEnter(irq) => self.enter(cpu, InterruptKind::Irq(*irq)),
            Event::IrqExit(irq) => self.leave(cpu, InterruptKind::Irq(*irq), to),
            Event::SoftirqEnter(softirq) => self.enter(cpu, InterruptKind::Softirq(*softirq)),
            Event::SoftirqExit(softirq) => self.leave(cpu, InterruptKind::Softirq(*softirq), to),
            Event::Lost(lost) => {
                self.lost(cpu, lost, to);
                to.other(self, event);
            }
            Event::Task(info) => return self.tasks.describe(info),
            Event::Stat(stat) => self.stat(stat, to),
            Event::Throttled(throttled) => self.throttled(throttled, to),
            Event::Affinity(affinity) => self.affinity(affinity),
            // The idle states before the window give each CPU's idle state at the window's start.
            Event::IdleState(_) => to.other(self, event),
            Event::TimerExpire(TimerExpire { tid, .. })
            | Event::Ipc(Ipc { tid, .. })
            | Event::Mark(Mark { tid, .. })
            | Event::Stack(Stack { tid, .. }) => {
                if !tid.is_idle() {
                    self.tasks.touch(*tid, self.now_ns);
                }
                if self.in_window() {
                    to.other(self, event);
                }
            }
            Event::NeedResched(_) | Event::ScheduleEnter | Event::ScheduleExit if self.in_window() => {
                to.other(self, event);
            }
            Event::Tick(_) | Event::NeedResched(_) | Event::ScheduleEnter | Event::ScheduleExit => {}
        }
        self.cpus[usize::from(cpu)].last_event_ns = self.now_ns;
    }

    #[cold]
    fn more_cpus(&mut self, cpu: u16, since_ns: u64) {
        // The trace had no event of this CPU before: the CPU's state until now is not known.
        self.cpus.resize_with(usize::from(cpu) + 1, || TimelineCpu::new(since_ns));
    }

    #[inline]
    pub(crate) fn in_window(&self) -> bool {
        self.now_ns >= self.window.from_ns
    }

    /// An interval cut to the window; `None` if it lies before the window.
    #[inline]
    pub(crate) fn clip(&self, start_ns: u64, end_ns: u64, mut cut: Cut) -> Option<(u64, u64, Cut)> {
        let from_ns = self.window.from_ns;
        if end_ns <= from_ns && start_ns < from_ns {
            return None;
        }
        cut.start |= start_ns < from_ns;
        let start_ns = start_ns.max(from_ns);
        Some((start_ns, end_ns.max(start_ns), cut))
    }

    /// The holder of a CPU by its tid: the idle task for tid 0, otherwise the tid's task.
    #[inline]
    pub(crate) fn holder(&mut self, tid: Tid) -> Holder {
        if tid.is_idle() { Holder::Idle } else { Holder::Task(self.tasks.touch(tid, self.now_ns)) }
    }

    fn enter(&mut self, cpu: u16, kind: InterruptKind) {
        self.cpus[usize::from(cpu)].enter(kind, self.now_ns);
    }

    fn leave(&mut self, cpu: u16, kind: InterruptKind, to: &mut impl Observer) {
        let span = self.cpus[usize::from(cpu)].leave(cpu, kind, self.now_ns);
        if let Some(span) = span.filter(|span| span.start_ns >= self.window.from_ns) {
            to.interrupted(self, &span);
        }
    }

    fn migrate(&mut self, migrate: &Migrate, to: &mut impl Observer) {
        if migrate.tid.is_idle() {
            return;
        }
        let index = self.tasks.touch(migrate.tid, self.now_ns);
        let now_ns = self.now_ns;
        let task = self.tasks.get_mut(index);
        if task.state == TaskState::Waiting {
            task.has_moved = true;
            task.moved = (migrate.from_cpu, now_ns);
        }
        task.cpu = migrate.to_cpu;
        if self.in_window() {
            let Migrate { from_cpu, to_cpu, .. } = *migrate;
            to.migrated(self, &Migrated { task: index, from_cpu, to_cpu });
        }
    }
}
