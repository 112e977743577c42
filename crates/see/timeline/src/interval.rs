//! The time line's output: intervals of tasks and CPUs, and events with their tasks resolved.

use std::fmt;

use serde::Serialize;
use spry_trace::Stamped;
use spry_trace::event::{Context, Irq, PrevState, Softirq, TaskStat};

use crate::cpu::Holder;
use crate::machine::Timeline;
use crate::task::TaskIndex;

/// The ends of an interval that are not its real ends: the window or lost events cut it off, or the
/// end was not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// The interval began earlier than its recorded start.
    pub start: bool,
    /// The interval went on after its end.
    pub end: bool,
}

impl Cut {
    /// Neither end is cut.
    pub const fn is_whole(self) -> bool {
        !self.start && !self.end
    }
}

/// A task had a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    pub task: TaskIndex,
    pub cpu: u16,
    /// The start, ns of the trace's clock.
    pub start_ns: u64,
    /// The end, ns of the trace's clock.
    pub end_ns: u64,
    /// Wall time, ns, up to the end of this stay that the kernel did not count as the task's. The part that
    /// earlier stays report is left out. Below 0 where the kernel counted more than the stay (see
    /// [`spry_trace::event::Switch::stolen_ns`]).
    pub stolen_ns: i64,
    /// How the stay ended.
    pub end: RunEnd,
    /// The ends that are cut.
    pub cut: Cut,
}

impl Ran {
    /// The length of the stay in wall time, ns.
    pub const fn wall_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// How a task's stay on a CPU ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// A switch ended the stay.
    Switched {
        /// The state in which the task left the CPU.
        state: PrevState,
        /// The task that got the CPU.
        next: Holder,
    },
    /// The stay had not ended, or it is not known how it ended.
    Open,
}

/// A CPU was idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idled {
    pub cpu: u16,
    /// The start, ns of the trace's clock.
    pub start_ns: u64,
    /// The end, ns of the trace's clock.
    pub end_ns: u64,
}

/// A task was runnable without a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    pub task: TaskIndex,
    /// The CPU that the task got, or the CPU of its queue.
    pub cpu: u16,
    /// The start, ns of the trace's clock.
    pub start_ns: u64,
    /// The end, ns of the trace's clock.
    pub end_ns: u64,
    pub cause: WaitCause,
    /// The time of the waking, for woken tasks, ns; at most `start_ns`.
    pub waking_ns: u64,
    /// The CPU that the task left in its last move during the wait, and the time of that move, ns.
    pub moved: Option<(u16, u64)>,
    /// The ends that are cut.
    pub cut: Cut,
}

/// Why a task was runnable without a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitCause {
    /// The task was woken, by `by` or while `by` was running on the waker's CPU.
    Woken {
        /// The task that was running on the waker's CPU.
        by: Holder,
        /// The context of the waker.
        context: Context,
    },
    /// The task was preempted, or left the CPU while runnable, and `by` got the CPU.
    Preempted {
        /// The task that got the CPU.
        by: Holder,
    },
    /// The task was created.
    New,
    /// The task may not run, since the quota of a group is spent. The CPU's holder does not delay it.
    Throttled {
        /// The limit; [`Timeline::limit`] has it.
        limit: LimitIndex,
    },
    /// The task was throttled before, and may run again.
    Released {
        /// The limit that throttled it.
        limit: LimitIndex,
    },
    /// The task already waited when the trace began.
    Unknown,
}

/// One of the groups' limits that appear in the trace. Indices count up from 0 without gaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitIndex(pub(crate) u32);

/// A task was blocked (or, before its first wake-up, not yet runnable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slept {
    pub task: TaskIndex,
    /// The start, ns of the trace's clock.
    pub start_ns: u64,
    /// The end, ns of the trace's clock.
    pub end_ns: u64,
    /// The state in which the task left the CPU; `None` for a new task, or if the state is unknown.
    pub state: Option<PrevState>,
    /// The ends that are cut.
    pub cut: Cut,
}

/// A switch with its tasks resolved; reported before the intervals that it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switched {
    /// The time of the switch, ns of the trace's clock.
    pub time_ns: u64,
    pub cpu: u16,
    /// The task that lost the CPU.
    pub prev: Holder,
    /// The task that got the CPU.
    pub next: Holder,
    /// The state in which `prev` left the CPU.
    pub state: PrevState,
}

/// A waker decided to wake a task, whether or not that task was still running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waking {
    /// The time of the waking, ns of the trace's clock.
    pub time_ns: u64,
    /// The waker's CPU.
    pub cpu: u16,
    /// The task that was running on the waker's CPU.
    pub by: Holder,
    /// The context of the waker.
    pub context: Context,
    /// The task to be woken.
    pub task: TaskIndex,
}

/// A blocked or new task became runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Woken {
    /// The time at which the task became runnable, ns of the trace's clock.
    pub time_ns: u64,
    pub task: TaskIndex,
    /// [`WaitCause::Woken`] or [`WaitCause::New`].
    pub cause: WaitCause,
}

/// A task moved to another CPU's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrated {
    pub task: TaskIndex,
    /// The CPU that the task left.
    pub from_cpu: u16,
    /// The CPU that the task moved to.
    pub to_cpu: u16,
}

/// A clock tick was handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticked {
    /// The time at which the tick was handled, ns of the trace's clock.
    pub time_ns: u64,
    pub cpu: u16,
    /// The task that had the CPU.
    pub holder: Holder,
}

/// The kind of an interrupt or softirq.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    Irq(Irq),
    Softirq(Softirq),
}

impl fmt::Display for InterruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InterruptKind::Irq(Irq::Device(line)) => write!(f, "irq {line}"),
            InterruptKind::Irq(Irq::LocalTimer) => f.write_str("local timer"),
            InterruptKind::Irq(Irq::Reschedule) => f.write_str("reschedule"),
            InterruptKind::Irq(Irq::CallFunction) => f.write_str("call function"),
            InterruptKind::Irq(Irq::IrqWork) => f.write_str("irq work"),
            InterruptKind::Softirq(softirq) => write!(f, "softirq {}", softirq.name()),
        }
    }
}

/// An interrupt handler or softirq ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    pub cpu: u16,
    /// The kind of the interrupt or softirq.
    pub kind: InterruptKind,
    /// The entry, ns of the trace's clock.
    pub start_ns: u64,
    /// The return, ns of the trace's clock.
    pub end_ns: u64,
    /// The handler's own time, without the interrupts inside it, ns.
    pub own_ns: u64,
    /// The task that had the CPU.
    pub holder: Holder,
}

/// Receives the time line's intervals and events, in order of the ends of the intervals.
///
/// Every method does nothing unless overridden. `now` is the time line in its state just before the event's
/// task gets the CPU; it therefore still shows a task's last state.
#[allow(unused_variables)]
pub trait Observer {
    /// A CPU switched; called before the calls for the intervals that the switch ends.
    fn switched(&mut self, now: &Timeline, switched: &Switched) {}
    /// A task lost its CPU.
    fn ran(&mut self, now: &Timeline, ran: &Ran) {}
    /// A CPU stopped being idle.
    fn idled(&mut self, now: &Timeline, idled: &Idled) {}
    /// A task got a CPU.
    fn waited(&mut self, now: &Timeline, waited: &Waited) {}
    /// A task became runnable.
    fn slept(&mut self, now: &Timeline, slept: &Slept) {}
    /// A waker decided to wake a task.
    fn waking(&mut self, now: &Timeline, waking: &Waking) {}
    /// A blocked or new task became runnable.
    fn woken(&mut self, now: &Timeline, woken: &Woken) {}
    /// A task moved to another CPU's queue.
    fn migrated(&mut self, now: &Timeline, migrated: &Migrated) {}
    /// A CPU handled a clock tick.
    fn ticked(&mut self, now: &Timeline, ticked: &Ticked) {}
    /// An interrupt or softirq returned.
    fn interrupted(&mut self, now: &Timeline, interrupted: &Interrupted) {}
    /// A task left the CPU for the last time.
    fn ended(&mut self, now: &Timeline, task: TaskIndex) {}
    /// The kernel's own account of a task.
    fn accounted(&mut self, now: &Timeline, task: TaskIndex, stat: &TaskStat) {}
    /// An event that is none of the above.
    fn other(&mut self, now: &Timeline, event: &Stamped) {}
}
