//! The events a trace is made of, as every part of Spry sees them.
//!
//! Kernel words keep their kernel meaning. A `tid` is a thread, a `tgid` a process; times are nanoseconds of
//! the machine's monotonic clock. The idle task of every CPU has tid 0.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
pub use spry_task::{Tgid, Tid};

mod counted;
mod quota;

pub use quota::{Limit, Throttled};

/// A task's name as the kernel keeps it: at most 15 bytes, zero-padded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// The name cut to 15 bytes.
    pub fn new(name: &[u8]) -> Comm {
        let mut bytes = [0; 16];
        let len = name.iter().position(|&b| b == 0).unwrap_or(name.len()).min(15);
        bytes[..len].copy_from_slice(&name[..len]);
        Comm(bytes)
    }

    /// The bytes before the padding.
    pub fn as_bytes(&self) -> &[u8] {
        let len = self.0.iter().position(|&b| b == 0).unwrap_or(16);
        &self.0[..len]
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.as_bytes()), f)
    }
}

/// One event with its time and its CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Stamped {
    /// Nanoseconds of the machine's monotonic clock.
    pub time_ns: u64,
    /// The CPU the event happened on.
    pub cpu: u16,
    /// The event itself.
    pub event: Event,
}

/// An event: a kernel tracepoint, a mark of a program, or a record that the recorder adds.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The CPU goes from one task to another.
    Switch(Switch),
    /// A waker decided to wake a task; the event's CPU is the waker's.
    Waking(Waking),
    /// The task was put on a run queue (or found still running there).
    Wakeup(Wakeup),
    /// A thread or process was created.
    Fork(Fork),
    /// A process image was replaced. A following `Comm` carries the name.
    Exec(Exec),
    /// A thread exited. Its last switch follows.
    Exit(Exit),
    /// A thread's name changed.
    Comm(Rename),
    /// A thread's class or priority was seen to have changed.
    Prio(Prio),
    /// A runnable or waking task moved to another CPU.
    Migrate(Migrate),
    /// The clock tick was handled on this CPU.
    Tick(Tick),
    /// A timer expired; the event is its handler's entry.
    TimerExpire(TimerExpire),
    /// An interrupt handler was entered.
    IrqEnter(Irq),
    /// An interrupt handler returned.
    IrqExit(Irq),
    /// A softirq was entered.
    SoftirqEnter(Softirq),
    /// A softirq returned.
    SoftirqExit(Softirq),
    /// The need-resched flag of a CPU was set.
    NeedResched(NeedResched),
    /// `schedule()` was entered.
    ScheduleEnter,
    /// `schedule()` was left.
    ScheduleExit,
    /// The CPU enters an idle state, which has this number in the kernel's idle driver, or leaves the idle
    /// state that it is in (`None`).
    IdleState(Option<u32>),
    /// Bytes went into or came out of a channel between processes.
    Ipc(Ipc),
    /// A program's own event.
    Mark(Mark),
    /// The call stack of a task when it left the CPU.
    Stack(Stack),
    /// Events of this CPU were lost between its previous event and this one.
    Lost(Lost),
    /// The number, process and name of a task that the trace mentions from here on. The trace restates this;
    /// no event of the kernel corresponds to it.
    Task(TaskInfo),
    /// The kernel's own account of a task at this moment (start and end of a recording, and at its exit).
    Stat(TaskStat),
    /// A runnable task is throttled: a cgroup above it has spent its quota.
    Throttled(Throttled),
    /// The number of CPUs on which a task may run was seen to be another one.
    Affinity(Affinity),
}

/// `sched_switch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    /// The task that leaves the CPU.
    pub prev: Tid,
    /// The task that gets the CPU.
    pub next: Tid,
    /// The state in which `prev` leaves.
    pub prev_state: PrevState,
    /// The kernel's priority of `prev`: 0..=99 real-time, 100..=139 fair, [`PRIO_DEADLINE`] for
    /// deadline tasks.
    pub prev_prio: u8,
    /// The kernel's priority of `next`.
    pub next_prio: u8,
    /// Wall time of `prev`'s stays on a CPU up to this switch that the kernel did not count as its run time
    /// (stolen by the hypervisor, or interrupt time where the kernel accounts it), ns. Below 0 where the
    /// kernel counted more than the stay, for it may bill from an older reading of its clock. Differences
    /// within 1 us are carried over to later switches.
    pub stolen_ns: i32,
}

/// The priority shown for deadline tasks, which rank before 0.
pub const PRIO_DEADLINE: u8 = 255;

/// The state in which a task left the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum PrevState {
    /// Still runnable, preempted inside the kernel (`sched_switch`'s `preempt` argument).
    Preempted = 0,
    /// Still runnable, switched at a voluntary call or on the way back to user space (yield, end of slice).
    Runnable = 1,
    /// Interruptible sleep.
    Sleeping = 2,
    /// Uninterruptible sleep.
    DiskSleep = 3,
    /// Stopped by job control.
    Stopped = 4,
    /// Stopped by a tracer.
    Traced = 5,
    /// Exited, not yet reaped.
    Zombie = 6,
    /// Exited for good.
    Dead = 7,
    /// Parked kernel thread.
    Parked = 8,
    /// Idle-class uninterruptible sleep (`TASK_IDLE`, counts no load).
    IdleSleep = 9,
    /// A state for which this version has no name.
    Other = 10,
}

impl PrevState {
    /// Every state, by its number.
    pub const ALL: [PrevState; 11] = [
        PrevState::Preempted,
        PrevState::Runnable,
        PrevState::Sleeping,
        PrevState::DiskSleep,
        PrevState::Stopped,
        PrevState::Traced,
        PrevState::Zombie,
        PrevState::Dead,
        PrevState::Parked,
        PrevState::IdleSleep,
        PrevState::Other,
    ];

    /// The state with that number.
    pub fn from_number(number: u8) -> Option<PrevState> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the task stays runnable: an involuntary switch, as the kernel counts them.
    pub const fn is_runnable(self) -> bool {
        matches!(self, PrevState::Preempted | PrevState::Runnable)
    }

    /// Whether the task will never run again.
    pub const fn is_exit(self) -> bool {
        matches!(self, PrevState::Zombie | PrevState::Dead)
    }
}

/// The context from which a task was woken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Context {
    /// The running task, which is `waker`, woke the task itself.
    Task = 0,
    /// A softirq woke the task; `waker` only happened to be running.
    Softirq = 1,
    /// An interrupt handler woke the task; `waker` only happened to be running.
    Hardirq = 2,
    /// The context cannot be determined on this kernel.
    Unknown = 3,
}

/// `sched_waking`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waking {
    /// The task that was running on the waker's CPU.
    pub waker: Tid,
    /// The task that is woken.
    pub wakee: Tid,
    /// Whether the waker itself woke the task, or an interrupt or softirq did.
    pub context: Context,
}

/// `sched_wakeup` or `sched_wakeup_new`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wakeup {
    /// The task that is runnable from now.
    pub tid: Tid,
    /// The CPU with the task on its run queue.
    pub target_cpu: u16,
    /// Whether this is the task's first wake-up or a later one.
    pub kind: WakeupKind,
}

/// Whether a wake-up is the first of a new task or a later one of any task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeupKind {
    /// `sched_wakeup_new`.
    New,
    /// `sched_wakeup`.
    Again,
}

/// `sched_process_fork`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork {
    /// The creating thread.
    pub parent: Tid,
    /// The created thread.
    pub child: Tid,
    /// The process the created thread belongs to; equal to `child` for a new process.
    pub child_tgid: Tgid,
    /// The child's name: the parent's name, until the child changes it.
    pub comm: Comm,
}

/// `sched_process_exec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exec {
    /// The thread, which is now the leader of its process.
    pub tid: Tid,
    /// The thread's tid before the exec, which differs if it was not the leader.
    pub old_tid: Tid,
}

/// `sched_process_exit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The exiting thread.
    pub tid: Tid,
}

/// A thread gets another name (`task_rename`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rename {
    /// The thread that is renamed.
    pub tid: Tid,
    /// The thread's new name.
    pub comm: Comm,
}

/// Scheduling policy, by the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Policy {
    /// `SCHED_OTHER`: the fair class.
    Other = 0,
    /// `SCHED_FIFO`: real-time, without quanta.
    Fifo = 1,
    /// `SCHED_RR`: real-time, with quanta.
    Rr = 2,
    /// `SCHED_BATCH`: the fair class, for tasks without interaction.
    Batch = 3,
    /// `SCHED_IDLE`: the fair class with the least weight.
    Idle = 5,
    /// `SCHED_DEADLINE`.
    Deadline = 6,
    /// `SCHED_EXT`: the class of BPF schedulers.
    Ext = 7,
}

impl Policy {
    /// The policy with the kernel's number.
    pub fn from_number(number: u8) -> Option<Policy> {
        Some(match number {
            0 => Policy::Other,
            1 => Policy::Fifo,
            2 => Policy::Rr,
            3 => Policy::Batch,
            5 => Policy::Idle,
            6 => Policy::Deadline,
            7 => Policy::Ext,
            _ => return None,
        })
    }
}

/// A change of class or priority, seen at the task's next switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prio {
    /// The thread with the new class or priority.
    pub tid: Tid,
    /// The task's policy from here on.
    pub policy: Policy,
    /// The task's kernel priority from here on (see [`Switch::prev_prio`]).
    pub prio: u8,
}

/// A task's affinity, as seen before the task waits. The event restates an affinity from time to time. A task
/// without such an event may run on all CPUs, or its affinity is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affinity {
    /// The thread that is bound.
    pub tid: Tid,
    /// The number of CPUs on which the thread may run.
    pub cpus: u16,
}

/// `sched_migrate_task`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrate {
    /// The thread that moves.
    pub tid: Tid,
    /// The CPU it leaves.
    pub from_cpu: u16,
    /// The CPU it goes to.
    pub to_cpu: u16,
}

/// The clock tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick {
    /// The due time of the tick, ns; the event's time is the time at which the tick was handled.
    pub due_ns: u64,
}

/// The kind of a timer, by its handler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum TimerKind {
    /// A thread's sleep or time-out (`nanosleep`, `poll`, `futex`): its handler wakes the sleeper.
    Sleep = 0,
    /// A timer of a file descriptor (`timerfd_create`).
    Timerfd = 1,
    /// A timer of a process (`timer_create`).
    Posix = 2,
    /// An interval timer (`setitimer`).
    Itimer = 3,
    /// A kernel thread's or driver's time-out on the timer wheel.
    Wheel = 4,
    /// A timer of none of these kinds, or of an unknown kind.
    Other = 5,
}

/// `hrtimer_expire_entry` or `timer_expire_entry`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerExpire {
    /// The thread that waits for the timer, where the timer names it; otherwise 0.
    pub tid: Tid,
    /// The timer's kind.
    pub kind: TimerKind,
    /// The requested expiry time, ns of the trace's clock.
    pub deadline_ns: u64,
    /// The latest time at which the kernel may let the timer expire (deadline plus timer slack), ns.
    pub latest_ns: u64,
}

impl TimerExpire {
    /// Programs set a timer to the first moment of its clock if it is to expire at once. Such a timer is not
    /// late and has no event. Its time on the trace's clock is this at most, ns.
    pub const AT_ONCE_NS: u64 = 1;
}

/// An interrupt, by its source.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Irq {
    /// A device's interrupt line.
    Device(u16),
    /// The CPU's own timer.
    LocalTimer,
    /// A request for a reschedule from another CPU.
    Reschedule,
    /// A request for a function call from another CPU.
    CallFunction,
    /// Deferred work of the kernel itself (`irq_work`).
    IrqWork,
}

/// A softirq by the kernel's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Softirq(pub u8);

impl Softirq {
    /// The kernel's name for the softirq.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 10] =
            ["hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu"];
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

/// A CPU's need-resched flag was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeedResched {
    /// The task that has to leave the CPU.
    pub tid: Tid,
    /// The CPU on which the task runs.
    pub target_cpu: u16,
    /// Whether to reschedule at once, or at the next tick or return to user space.
    pub urgency: Urgency,
}

/// The time by which a requested reschedule has to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// `TIF_NEED_RESCHED`.
    Now,
    /// `TIF_NEED_RESCHED_LAZY`.
    Lazy,
}

/// The kind of a channel between processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ChannelKind {
    /// A pipe or FIFO.
    Pipe = 0,
    /// A UNIX-domain socket.
    Unix = 1,
    /// A TCP or UDP socket.
    Inet = 2,
    /// A terminal or pseudo-terminal.
    Tty = 3,
}

/// A channel between processes. The events of its writers and readers carry the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Channel {
    /// The channel's kind.
    pub kind: ChannelKind,
    /// The queue that the bytes go through, unique within `kind` while it exists.
    pub id: u64,
}

/// The direction of the bytes, as seen from the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Into the channel.
    Write,
    /// Out of the channel.
    Read,
}

/// Bytes into or out of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ipc {
    /// The task that wrote or read.
    pub tid: Tid,
    /// Whether the bytes went into or out of the channel.
    pub direction: Direction,
    /// The channel that the bytes went through.
    pub channel: Channel,
    /// The number of bytes.
    pub bytes: u32,
}

/// A program's own event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The task that made the mark.
    pub tid: Tid,
    /// The mark's text, at most [`Mark::MAX_BYTES`] bytes.
    pub text: Box<str>,
}

impl Mark {
    /// The longest text of a mark, bytes. Longer texts are cut.
    pub const MAX_BYTES: usize = 128;
}

/// The call stack of a task when it left the CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// The thread that left the CPU.
    pub tid: Tid,
    /// Kernel frames first, then user frames, each from the innermost on. Names are resolved while recording.
    pub frames: Box<[Arc<str>]>,
}

/// A number of events that happened but are not in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The number of events that are missing.
    pub count: u64,
}

/// The numbers and the name of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// The thread's number in the outermost namespace.
    pub tid: Tid,
    /// The process to which the thread belongs.
    pub tgid: Tgid,
    /// The thread's name.
    pub comm: Comm,
    /// The task's numbers in the recorder's PID namespace; `None` if that is the outermost namespace, or if
    /// the task is outside of it.
    pub inner: Option<Numbers>,
}

impl TaskInfo {
    /// A task without known numbers in another PID namespace.
    pub const fn new(tid: Tid, tgid: Tgid, comm: Comm) -> TaskInfo {
        TaskInfo { tid, tgid, comm, inner: None }
    }
}

/// A task's numbers in a PID namespace. All other numbers in a trace are of the outermost namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The number of the thread in that namespace.
    pub tid: Tid,
    /// The number of the process in that namespace.
    pub tgid: Tgid,
}

/// The kernel's own account of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskStat {
    /// The thread of the account.
    pub tid: Tid,
    /// The thread's state when the account was taken.
    pub state: StatState,
    /// `se.sum_exec_runtime`, ns.
    pub exec_ns: u64,
    /// Raw tick samples in user mode (`task_struct.utime`), ns.
    pub utime_ns: u64,
    /// Raw tick samples in kernel mode (`task_struct.stime`), ns.
    pub stime_ns: u64,
}

/// A task's state when its account was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum StatState {
    /// The thread has a CPU.
    Running = 0,
    /// On a run queue.
    Runnable = 1,
    /// The thread is on no run queue.
    Blocked = 2,
    /// The thread has exited.
    Exited = 3,
}
