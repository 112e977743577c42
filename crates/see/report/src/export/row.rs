//! One event as a row of the wide table that CSV and Parquet share.

use std::borrow::Cow;

use spry_trace::event::{
    ChannelKind, Context, Direction, Event, Irq, Policy, PrevState, StatState, TimerKind, Urgency, WakeupKind,
};
use spry_trace::{Kind as EventKind, Stamped, Tid};

use super::tasks::Tasks;

/// The type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    U16,
    U32,
    U64,
    /// -2^63 to 2^63 - 1.
    I64,
    Text,
}

/// The columns, in order.
#[derive(Clone, Copy)]
pub(super) enum Column {
    TimeNs,
    Cpu,
    Event,
    Detail,
    Tid,
    Tgid,
    Comm,
    OtherTid,
    OtherTgid,
    OtherComm,
    Prio,
    OtherPrio,
    FromCpu,
    TargetCpu,
    StolenNs,
    DueNs,
    LatestNs,
    Irq,
    ChannelId,
    Bytes,
    Count,
    ExecNs,
    UtimeNs,
    StimeNs,
    Text,
    IdleState,
}

/// Name and content of each [`Column`].
pub(super) const COLUMNS: [(&str, Kind); 26] = [
    ("time_ns", Kind::U64),
    ("cpu", Kind::U16),
    ("event", Kind::Text),
    ("detail", Kind::Text),
    ("tid", Kind::U32),
    ("tgid", Kind::U32),
    ("comm", Kind::Text),
    ("other_tid", Kind::U32),
    ("other_tgid", Kind::U32),
    ("other_comm", Kind::Text),
    ("prio", Kind::U16),
    ("other_prio", Kind::U16),
    ("from_cpu", Kind::U16),
    ("target_cpu", Kind::U16),
    ("stolen_ns", Kind::I64),
    ("due_ns", Kind::U64),
    ("latest_ns", Kind::U64),
    ("irq", Kind::U16),
    ("channel_id", Kind::U64),
    ("bytes", Kind::U32),
    ("count", Kind::U64),
    ("exec_ns", Kind::U64),
    ("utime_ns", Kind::U64),
    ("stime_ns", Kind::U64),
    ("text", Kind::Text),
    ("idle_state", Kind::U32),
];

/// The value of a column in a row; `Null` if the event does not have it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Cell<'a> {
    Null,
    Int(u64),
    Signed(i64),
    Text(Cow<'a, str>),
}

/// A row; an event's first task is `tid` (it leaves, wakes or forks), its second `other_tid`.
pub(super) struct Row<'a> {
    cells: [Cell<'a>; COLUMNS.len()],
    tasks: &'a Tasks,
    cpu: u16,
}

impl<'a> Row<'a> {
    /// The row of an event that `tasks` have learned already.
    pub(super) fn new(stamped: &'a Stamped, tasks: &'a Tasks) -> Row<'a> {
        let mut row = Row { cells: [const { Cell::Null }; COLUMNS.len()], tasks, cpu: stamped.cpu };
        row.int(Column::TimeNs, stamped.time_ns);
        row.int(Column::Cpu, stamped.cpu);
        row.scheduling(&stamped.event);
        row
    }

    /// The row's values in the order of [`COLUMNS`].
    pub(super) fn cells(&self) -> &[Cell<'a>] {
        &self.cells
    }

    fn int(&mut self, column: Column, value: impl Into<u64>) {
        self.cells[column as usize] = Cell::Int(value.into());
    }

    fn text(&mut self, column: Column, value: impl Into<Cow<'a, str>>) {
        self.cells[column as usize] = Cell::Text(value.into());
    }

    fn event(&mut self, name: &'static str, detail: &'static str) {
        self.text(Column::Event, name);
        if !detail.is_empty() {
            self.text(Column::Detail, detail);
        }
    }

    fn task(&mut self, tid: Tid) {
        self.named(tid, [Column::Tid, Column::Tgid, Column::Comm]);
    }

    fn other(&mut self, tid: Tid) {
        self.named(tid, [Column::OtherTid, Column::OtherTgid, Column::OtherComm]);
    }

    fn named(&mut self, tid: Tid, [tid_at, tgid_at, comm_at]: [Column; 3]) {
        self.int(tid_at, tid.0);
        let name = self.tasks.name(self.cpu, tid);
        if !name.is_empty() {
            self.text(comm_at, name);
        }
        if tid.is_idle() {
            self.int(tgid_at, 0u32);
        } else if let Some(tgid) = self.tasks.get(tid).and_then(|known| known.tgid) {
            self.int(tgid_at, tgid.0);
        }
    }

    fn scheduling(&mut self, event: &'a Event) {
        match event {
            Event::Switch(switch) => {
                self.event("switch", state_name(switch.prev_state));
                self.task(switch.prev);
                self.other(switch.next);
                self.int(Column::Prio, switch.prev_prio);
                self.int(Column::OtherPrio, switch.next_prio);
                if !self.tasks.may_lack(EventKind::Stolen) {
                    self.cells[Column::StolenNs as usize] = Cell::Signed(switch.stolen_ns.into());
                }
            }
            Event::Waking(waking) => {
                self.event("waking", context_name(waking.context));
                self.task(waking.waker);
                self.other(waking.wakee);
            }
            Event::Wakeup(wakeup) => {
                let first = matches!(wakeup.kind, WakeupKind::New);
                self.event("wakeup", if first { "new" } else { "again" });
                self.task(wakeup.tid);
                self.int(Column::TargetCpu, wakeup.target_cpu);
            }
            Event::Fork(fork) => {
                self.event("fork", "");
                self.task(fork.parent);
                self.other(fork.child);
            }
            Event::Exec(exec) => {
                self.event("exec", "");
                self.task(exec.tid);
                self.other(exec.old_tid);
            }
            Event::Exit(exit) => {
                self.event("exit", "");
                self.task(exit.tid);
            }
            Event::Comm(rename) => {
                self.event("comm", "");
                self.task(rename.tid);
            }
            Event::Prio(prio) => {
                self.event("prio", policy_name(prio.policy));
                self.task(prio.tid);
                self.int(Column::Prio, prio.prio);
            }
            Event::Migrate(migrate) => {
                self.event("migrate", "");
                self.task(migrate.tid);
                self.int(Column::FromCpu, migrate.from_cpu);
                self.int(Column::TargetCpu, migrate.to_cpu);
            }
            _ => self.interrupts(event),
        }
    }

    fn interrupts(&mut self, event: &'a Event) {
        match event {
            Event::Tick(tick) => {
                self.event("tick", "");
                self.int(Column::DueNs, tick.due_ns);
            }
            Event::TimerExpire(timer) => {
                self.event("timer_expire", timer_name(timer.kind));
                if !timer.tid.is_idle() {
                    self.task(timer.tid);
                }
                self.int(Column::DueNs, timer.deadline_ns);
                self.int(Column::LatestNs, timer.latest_ns);
            }
            Event::IrqEnter(irq) => self.irq("irq_enter", *irq),
            Event::IrqExit(irq) => self.irq("irq_exit", *irq),
            Event::SoftirqEnter(softirq) => {
                self.event("softirq_enter", softirq.name());
                self.int(Column::Irq, softirq.0);
            }
            Event::SoftirqExit(softirq) => {
                self.event("softirq_exit", softirq.name());
                self.int(Column::Irq, softirq.0);
            }
            Event::NeedResched(need) => {
                let now = matches!(need.urgency, Urgency::Now);
                self.event("need_resched", if now { "now" } else { "lazy" });
                self.task(need.tid);
                self.int(Column::TargetCpu, need.target_cpu);
            }
            Event::ScheduleEnter => self.event("schedule_enter", ""),
            Event::ScheduleExit => self.event("schedule_exit", ""),
            _ => self.rest(event),
        }
    }

    fn irq(&mut self, name: &'static str, irq: Irq) {
        self.event(name, irq_name(irq));
        if let Irq::Device(line) = irq {
            self.int(Column::Irq, line);
        }
    }

    fn rest(&mut self, event: &'a Event) {
        match event {
            Event::IdleState(Some(state)) => {
                self.event("idle_enter", "");
                self.int(Column::IdleState, *state);
            }
            Event::IdleState(None) => self.event("idle_exit", ""),
            Event::Ipc(ipc) => {
                let written = matches!(ipc.direction, Direction::Write);
                self.event(if written { "ipc_write" } else { "ipc_read" }, channel_name(ipc.channel.kind));
                self.task(ipc.tid);
                self.int(Column::ChannelId, ipc.channel.id);
                self.int(Column::Bytes, ipc.bytes);
            }
            Event::Mark(mark) => {
                self.event("mark", "");
                self.task(mark.tid);
                self.text(Column::Text, &*mark.text);
            }
            Event::Stack(stack) => {
                self.event("stack", "");
                self.task(stack.tid);
                self.text(Column::Text, stack.frames.join(";"));
            }
            Event::Lost(lost) => {
                self.event("lost", "");
                self.int(Column::Count, lost.count);
            }
            Event::Task(info) => {
                self.event("task", "");
                self.task(info.tid);
            }
            Event::Stat(stat) => {
                self.event("stat", stat_name(stat.state));
                self.task(stat.tid);
                self.int(Column::ExecNs, stat.exec_ns);
                self.int(Column::UtimeNs, stat.utime_ns);
                self.int(Column::StimeNs, stat.stime_ns);
            }
            Event::Throttled(throttled) => {
                let is_over = throttled.throttled_ns.is_some();
                self.event("throttled", if is_over { "over" } else { "begins" });
                self.task(throttled.tid);
                self.text(Column::Text, &*throttled.limit.group);
            }
            Event::Affinity(affinity) => {
                self.event("affinity", "");
                self.task(affinity.tid);
                self.int(Column::Count, affinity.cpus);
            }
            _ => unreachable!("scheduling and interrupt events were taken above"),
        }
    }
}

pub(super) fn state_name(state: PrevState) -> &'static str {
    match state {
        PrevState::Preempted => "preempted",
        PrevState::Runnable => "runnable",
        PrevState::Sleeping => "sleeping",
        PrevState::DiskSleep => "disk_sleep",
        PrevState::Stopped => "stopped",
        PrevState::Traced => "traced",
        PrevState::Zombie => "zombie",
        PrevState::Dead => "dead",
        PrevState::Parked => "parked",
        PrevState::IdleSleep => "idle_sleep",
        PrevState::Other => "other",
    }
}

fn context_name(context: Context) -> &'static str {
    match context {
        Context::Task => "task",
        Context::Softirq => "softirq",
        Context::Hardirq => "hardirq",
        Context::Unknown => "unknown",
    }
}

pub(super) fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Other => "other",
        Policy::Fifo => "fifo",
        Policy::Rr => "rr",
        Policy::Batch => "batch",
        Policy::Idle => "idle",
        Policy::Deadline => "deadline",
        Policy::Ext => "ext",
    }
}

pub(super) fn timer_name(kind: TimerKind) -> &'static str {
    match kind {
        TimerKind::Sleep => "sleep",
        TimerKind::Timerfd => "timerfd",
        TimerKind::Posix => "posix",
        TimerKind::Itimer => "itimer",
        TimerKind::Wheel => "wheel",
        TimerKind::Other => "other",
    }
}

pub(super) fn irq_name(irq: Irq) -> &'static str {
    match irq {
        Irq::Device(_) => "device",
        Irq::LocalTimer => "local_timer",
        Irq::Reschedule => "reschedule",
        Irq::CallFunction => "call_function",
        Irq::IrqWork => "irq_work",
    }
}

pub(super) fn channel_name(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Pipe => "pipe",
        ChannelKind::Unix => "unix",
        ChannelKind::Inet => "inet",
        ChannelKind::Tty => "tty",
    }
}

fn stat_name(state: StatState) -> &'static str {
    match state {
        StatState::Running => "running",
        StatState::Runnable => "runnable",
        StatState::Blocked => "blocked",
        StatState::Exited => "exited",
    }
}
