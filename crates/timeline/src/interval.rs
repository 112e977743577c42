//! What the time line tells: intervals of tasks and CPUs, and events with their tasks resolved.

use std::fmt;

use serde::Serialize;
use spry_trace::Stamped;
use spry_trace::event::{Context, Irq, PrevState, Softirq, TaskStat};

use crate::cpu::Holder;
use crate::machine::Timeline;
use crate::task::TaskIndex;

/// Which ends of an interval are not its own: cut off by the window, by lost events, or not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cut {
    /// It began earlier than its start says.
    pub start: bool,
    /// It went on after its end.
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
    /// The task.
    pub task: TaskIndex,
    /// The CPU.
    pub cpu: u16,
    /// From, ns of the trace's clock.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// Wall time up to here that the kernel did not count as the task's and that no earlier stay tells of, ns. Below
    /// 0 where the kernel counted more than the stay (see [`spry_trace::event::Switch::stolen_ns`]).
    pub stolen_ns: i64,
    /// How it ended.
    pub end: RunEnd,
    /// Which ends are cut.
    pub cut: Cut,
}

impl Ran {
    /// Wall time, ns.
    pub const fn wall_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// How a task's stay on a CPU ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// By a switch.
    Switched {
        /// The state in which it left.
        state: PrevState,
        /// Who got the CPU.
        next: Holder,
    },
    /// It had not ended, or how is not known.
    Open,
}

/// A CPU was idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idled {
    /// The CPU.
    pub cpu: u16,
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
}

/// A task was runnable without a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// The task.
    pub task: TaskIndex,
    /// The CPU that it got, or whose queue it was on.
    pub cpu: u16,
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// Why it waited.
    pub cause: WaitCause,
    /// When waking began, for woken tasks; at most `start_ns`.
    pub waking_ns: u64,
    /// The queue that it was on before its last move during the wait, and when it moved.
    pub moved: Option<(u16, u64)>,
    /// Which ends are cut.
    pub cut: Cut,
}

/// Why a task was runnable without a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitCause {
    /// It was woken by (or while) that one (was running), in that context.
    Woken {
        /// Who was running on the waker's CPU.
        by: Holder,
        /// In which context.
        context: Context,
    },
    /// It was pushed off the CPU, or left it runnable, for that one.
    Preempted {
        /// Who got the CPU.
        by: Holder,
    },
    /// It was created.
    New,
    /// It already waited when the trace began.
    Unknown,
}

/// A task was blocked (or, before its first wake-up, not yet runnable).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slept {
    /// The task.
    pub task: TaskIndex,
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// The state in which it left the CPU; `None` for a new task and where unknown.
    pub state: Option<PrevState>,
    /// Which ends are cut.
    pub cut: Cut,
}

/// A switch with its tasks resolved; told before the intervals that it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switched {
    /// When.
    pub time_ns: u64,
    /// Where.
    pub cpu: u16,
    /// Who left.
    pub prev: Holder,
    /// Who came.
    pub next: Holder,
    /// The state in which `prev` left.
    pub state: PrevState,
}

/// Somebody decided to wake a task, whether or not it still ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waking {
    /// When.
    pub time_ns: u64,
    /// The waker's CPU.
    pub cpu: u16,
    /// Who was running there.
    pub by: Holder,
    /// In which context.
    pub context: Context,
    /// The task to be woken.
    pub task: TaskIndex,
}

/// A blocked or new task became runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Woken {
    /// When.
    pub time_ns: u64,
    /// The task.
    pub task: TaskIndex,
    /// [`WaitCause::Woken`] or [`WaitCause::New`].
    pub cause: WaitCause,
}

/// A task moved to another CPU's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrated {
    /// The task.
    pub task: TaskIndex,
    /// From.
    pub from_cpu: u16,
    /// To.
    pub to_cpu: u16,
}

/// A clock tick was handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticked {
    /// When.
    pub time_ns: u64,
    /// Where.
    pub cpu: u16,
    /// Who had the CPU.
    pub holder: Holder,
}

/// Which interrupt or softirq.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// An interrupt.
    Irq(Irq),
    /// A softirq.
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
    /// Where.
    pub cpu: u16,
    /// Which.
    pub kind: InterruptKind,
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// Its time without that of the interrupts inside it.
    pub own_ns: u64,
    /// Who had the CPU.
    pub holder: Holder,
}

/// Somebody who is told what the time line finds, in order of the ends of the intervals.
///
/// Every method does nothing unless overridden. The time line given is the one that tells, in the state just
/// before the event's task gets the CPU; a task's last state is therefore still to be seen in it.
#[allow(unused_variables)]
pub trait Observer {
    /// A switch, before the intervals that it ends.
    fn switched(&mut self, now: &Timeline, switched: &Switched) {}
    /// A task lost its CPU.
    fn ran(&mut self, now: &Timeline, ran: &Ran) {}
    /// A CPU stopped being idle.
    fn idled(&mut self, now: &Timeline, idled: &Idled) {}
    /// A task got a CPU.
    fn waited(&mut self, now: &Timeline, waited: &Waited) {}
    /// A task became runnable.
    fn slept(&mut self, now: &Timeline, slept: &Slept) {}
    /// Somebody decided to wake a task.
    fn waking(&mut self, now: &Timeline, waking: &Waking) {}
    /// A blocked or new task became runnable.
    fn woken(&mut self, now: &Timeline, woken: &Woken) {}
    /// A task moved.
    fn migrated(&mut self, now: &Timeline, migrated: &Migrated) {}
    /// A clock tick.
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
