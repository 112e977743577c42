//! The events a trace is made of, as every part of Spry sees them.
//!
//! Kernel words keep their kernel meaning. A `tid` is a thread, a `tgid` a process; times are nanoseconds of
//! the machine's monotonic clock. The idle task of every CPU has tid 0.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
pub use spry_task::{Tgid, Tid};

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

/// One event, when and where it happened.
#[derive(Clone, PartialEq, Debug)]
pub struct Stamped {
    /// Nanoseconds of the machine's monotonic clock.
    pub time_ns: u64,
    /// The CPU the event happened on.
    pub cpu: u16,
    /// The event, with what it says of its tasks.
    pub event: Event,
}

/// An event: a kernel's tracepoint, a mark of a program, or what the recorder adds.
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
    /// A thread ended. Its last switch follows.
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
    /// A CPU was told that it must reschedule.
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
    /// Where a task was in the code.
    Stack(Stack),
    /// Events of this CPU were lost between its previous event and this one.
    Lost(Lost),
    /// What is known of a task that the trace mentions from here on. The trace restates this; it is never an
    /// event of the kernel's.
    Task(TaskInfo),
    /// The kernel's own account of a task at this moment (start and end of a recording, and at its exit).
    Stat(TaskStat),
    /// A runnable task may not run, since the quota of a group is spent.
    Throttled(Throttled),
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
    /// The kernel's priority of `prev`: 0..=99 real-time, 100..=139 fair, [`PRIO_DEADLINE`] for deadline
    /// tasks.
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

/// How a task left the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum PrevState {
    /// Still runnable and pushed off inside the kernel (`sched_switch`'s `preempt` argument).
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
    /// A state this version has no name for.
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

/// In what context the waker was.
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
    /// The context cannot be known on this kernel.
    Unknown = 3,
}

/// `sched_waking`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waking {
    /// The task that was running on the waker's CPU.
    pub waker: Tid,
    /// The task being woken.
    pub wakee: Tid,
    /// Whether the waker itself woke the task, or an interrupt or softirq did.
    pub context: Context,
}

/// `sched_wakeup` or `sched_wakeup_new`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wakeup {
    /// The task that is runnable from now.
    pub tid: Tid,
    /// The CPU that has it in its queue.
    pub target_cpu: u16,
    /// Whether this is the task's first wake-up or a later one.
    pub kind: WakeupKind,
}

/// First wake-up of a task's life, or a later one.
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
    /// The ending thread.
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
    /// When the tick should have come, ns; the event's time is when it was handled.
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
    /// What kind of timer.
    pub kind: TimerKind,
    /// The time asked for, ns of the trace's clock.
    pub deadline_ns: u64,
    /// The latest time at which the kernel may let the timer expire (deadline plus timer slack), ns.
    pub latest_ns: u64,
}

/// Which interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Irq {
    /// A device's interrupt line.
    Device(u16),
    /// The CPU's own timer.
    LocalTimer,
    /// Another CPU asks for a reschedule.
    Reschedule,
    /// Another CPU asks for a function call.
    CallFunction,
    /// Deferred work of the kernel's own.
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
    /// The task that is to make room.
    pub tid: Tid,
    /// The CPU it runs on.
    pub target_cpu: u16,
    /// Whether to reschedule at once, or at the next tick or return to user space.
    pub urgency: Urgency,
}

/// How soon a reschedule was asked for.
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

/// A channel: writers and readers of the same bytes carry the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Channel {
    /// What kind of channel it is.
    pub kind: ChannelKind,
    /// The queue that the bytes go through, unique within `kind` while it exists.
    pub id: u64,
}

/// Which way the bytes went.
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
    /// Which way the bytes went.
    pub direction: Direction,
    /// The channel that the bytes went through.
    pub channel: Channel,
    /// How many bytes.
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
    /// Longer marks are cut.
    pub const MAX_BYTES: usize = 128;
}

/// Where a task was in the code when it left the CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// The thread that left the CPU.
    pub tid: Tid,
    /// Kernel frames first, then user frames; the innermost first. Names are resolved while recording.
    pub frames: Box<[Arc<str>]>,
}

/// Events that are not in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// How many events are missing.
    pub count: u64,
}

/// What is known of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// The thread's number in the outermost namespace.
    pub tid: Tid,
    /// The thread's process.
    pub tgid: Tgid,
    /// The thread's name.
    pub comm: Comm,
    /// The task's numbers in the recorder's PID namespace; `None` if that is the outermost one, or if the
    /// task is outside of it.
    pub inner: Option<Numbers>,
}

impl TaskInfo {
    /// A task of which no numbers in another PID namespace are known.
    pub const fn new(tid: Tid, tgid: Tgid, comm: Comm) -> TaskInfo {
        TaskInfo { tid, tgid, comm, inner: None }
    }
}

/// A task's numbers in a PID namespace. Everywhere else numbers are those of the outermost namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The thread's number in that namespace.
    pub tid: Tid,
    /// The thread's process.
    pub tgid: Tgid,
}

/// The kernel's own account of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskStat {
    /// The thread of the account.
    pub tid: Tid,
    /// What the thread was doing.
    pub state: StatState,
    /// `se.sum_exec_runtime`, ns.
    pub exec_ns: u64,
    /// Raw tick samples in user mode (`task_struct.utime`), ns.
    pub utime_ns: u64,
    /// Raw tick samples in kernel mode (`task_struct.stime`), ns.
    pub stime_ns: u64,
}

/// A runnable task that may not run. The event comes once when the task has lost its CPU, and again before
/// the task gets a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Throttled {
    /// The thread that may not run.
    pub tid: Tid,
    /// How long the task was throttled from the beginning of its present wait on, ns; `None` when the wait
    /// begins.
    pub throttled_ns: Option<u64>,
    /// The limit that throttled it.
    pub limit: Arc<Limit>,
}

/// A limit of a cgroup's run time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The cgroup's path in its hierarchy; empty if it is not known. At most [`Limit::PATH_BYTES_MAX`] bytes.
    pub group: Box<str>,
    /// The run time that all tasks of the group together may have in each period, ns.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
}

impl Limit {
    /// Longer paths are cut.
    pub const PATH_BYTES_MAX: usize = 512;
}

/// What a task was doing when its account was taken.
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
    /// The thread has ended.
    Exited = 3,
}
