//! Converts tracepoints' records to events, in the same way for perf's files and trace-cmd's.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use spry_trace::event::{
    Comm, Context, Event, Exec, Exit, Fork, Irq, Lost, Mark, Migrate, PRIO_DEADLINE, Softirq, Switch, Wakeup,
    WakeupKind, Waking,
};
use spry_trace::format::CPU_MAX;
use spry_trace::{Stamped, Tgid, Tid};

use crate::catalogue::{Catalogue, Edge, Point, SwitchPoint};
use crate::input::Order;
use crate::names::Names;
use crate::stays::{BrokenSwitches, Stays};
use crate::timers::{ArmedTimer, Timers};

/// `TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`, `TRACE_FLAG_NMI` of a record's flags.
const FLAG_HARDIRQ: i64 = 0x08;
const FLAG_SOFTIRQ: i64 = 0x10;
const FLAG_NMI: i64 = 0x40;
/// `PWR_EVENT_EXIT`, which stands for the state of a CPU that leaves its idle state.
const IDLE_LEFT: u32 = u32::MAX;
/// The flag of `clone()` for a new task that is a thread of its creator's process.
const CLONE_THREAD: i64 = 0x1_0000;

/// A record of a tracepoint: its time, its CPU, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u16,
    pub(crate) data: &'a [u8],
}

/// Takes records in order of time and gives out events.
#[derive(Debug)]
pub(crate) struct Converter {
    catalogue: Arc<Catalogue>,
    order: Order,
    names: Names,
    timers: Timers,
    stays: Stays,
    /// The tasks of a file without wake-ups that had a waking while they had a CPU, each with the CPU on
    /// which it will be queued.
    woken_early: FxHashMap<Tid, u16>,
    out: VecDeque<Stamped>,
    damaged_bytes: u64,
}

impl Converter {
    pub(crate) fn new(catalogue: Catalogue, order: Order, names: Names, timers: Timers) -> Converter {
        Converter {
            catalogue: Arc::new(catalogue),
            order,
            names,
            timers,
            stays: Stays::default(),
            woken_early: FxHashMap::default(),
            out: VecDeque::new(),
            damaged_bytes: 0,
        }
    }

    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The next event made.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Stamped> {
        self.out.pop_front()
    }

    /// The time of the next event that is already made, ns; `None` if there is none.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.out.front().map(|stamped| stamped.time_ns)
    }

    /// Bytes of records that could not be converted.
    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// The counts of switches that do not follow from the previous switch on their CPU.
    pub(crate) fn broken(&self) -> BrokenSwitches {
        self.stays.broken()
    }

    /// The number of a record's tracepoint; `None` if its records are not read.
    pub(crate) fn wanted(&self, data: &[u8]) -> Option<i64> {
        let kind = self.catalogue.kind().of(data, self.order)?;
        self.catalogue.point(kind).map(|_| kind)
    }

    fn put(&mut self, record: &Record<'_>, event: Event) {
        self.out.push_back(Stamped { time_ns: record.time_ns, cpu: record.cpu, event });
    }

    fn mention(&mut self, record: &Record<'_>, tid: Tid, comm: Option<Comm>) {
        if let Some(event) = self.names.mention(tid, comm) {
            self.put(record, event);
        }
    }

    /// Takes the next record.
    pub(crate) fn take(&mut self, record: &Record<'_>) {
        if self.convert(record).is_none() {
            self.damaged_bytes += record.data.len() as u64;
        }
    }

    /// `None` if the record is shorter than its format, or has an impossible value.
    fn convert(&mut self, record: &Record<'_>) -> Option<()> {
        let (data, order) = (record.data, self.order);
        let common = self.catalogue.common();
        let catalogue = Arc::clone(&self.catalogue);
        let point = catalogue.point(catalogue.kind().of(data, order)?)?;
        let flags = common.flags.of(data, order)?;
        let current = common.tid.tid_of(data, order)?;
        self.convert_point(record, point, current, flags)
    }

    fn convert_point(&mut self, record: &Record<'_>, point: &Point, current: Tid, flags: i64) -> Option<()> {
        let (data, order) = (record.data, self.order);
        let event = match point {
            Point::Switch(point) => return self.switch(record, point),
            Point::Waking { tid, comm, target_cpu } => {
                let wakee = tid.tid_of(data, order)?;
                self.mention(record, current, None);
                self.mention(record, wakee, Some(Comm::new(comm.of(data, order)?)));
                let waking = Waking { waker: current, wakee, context: context(flags) };
                self.put(record, Event::Waking(waking));
                let target_cpu = target_cpu.and_then(|cpu| cpu.of(data, order));
                return self.wake_at_once(record, wakee, target_cpu);
            }
            Point::Wakeup { kind, tid, comm, target_cpu } => {
                let tid = tid.tid_of(data, order)?;
                self.mention(record, tid, Some(Comm::new(comm.of(data, order)?)));
                let target_cpu = match target_cpu {
                    Some(number) => cpu(number.of(data, order)?)?,
                    None => record.cpu,
                };
                Event::Wakeup(Wakeup { tid, target_cpu, kind: *kind })
            }
            Point::NewTask { .. } | Point::Fork { .. } => return self.birth(record, point, current),
            Point::Exec { tid, old_tid } => {
                let (tid, old_tid) = (tid.tid_of(data, order)?, old_tid.tid_of(data, order)?);
                if tid != old_tid {
                    self.names.renumber(old_tid, tid);
                }
                self.mention(record, tid, None);
                Event::Exec(Exec { tid, old_tid })
            }
            Point::Exit { tid } => Event::Exit(Exit { tid: tid.tid_of(data, order)? }),
            Point::Rename { tid, comm } => {
                let tid = tid.map_or(Some(current), |tid| tid.tid_of(data, order))?;
                match self.names.mention(tid, Some(Comm::new(comm.of(data, order)?))) {
                    Some(event) => event,
                    // The task had the name before.
                    None => return Some(()),
                }
            }
            Point::Migrate { tid, from_cpu, to_cpu } => {
                let tid = tid.tid_of(data, order)?;
                self.mention(record, tid, None);
                let (from_cpu, to_cpu) = (cpu(from_cpu.of(data, order)?)?, cpu(to_cpu.of(data, order)?)?);
                Event::Migrate(Migrate { tid, from_cpu, to_cpu })
            }
            Point::Runtime { tid, runtime } => {
                let runtime_ns = u64::try_from(runtime.of(data, order)?).ok()?;
                self.stays.ran(tid.tid_of(data, order)?, runtime_ns);
                return Some(());
            }
            Point::IrqLine { irq, edge } => {
                interrupt(Irq::Device(u16::try_from(irq.of(data, order)?).ok()?), *edge)
            }
            Point::IrqVector { irq, edge } => interrupt(*irq, *edge),
            Point::Softirq { vec, edge } => {
                let softirq = Softirq(u8::try_from(vec.of(data, order)?).ok()?);
                if *edge == Edge::Enter { Event::SoftirqEnter(softirq) } else { Event::SoftirqExit(softirq) }
            }
            Point::TimerStart { timer, function, expires, soft_expires } => {
                let number =
                    |number: &crate::format::Number| number.of(data, order).map(|value| value as u64);
                let (soft_ns, expires_ns) = (number(soft_expires)?, number(expires)?);
                let armed = ArmedTimer {
                    by: current,
                    at_ns: record.time_ns,
                    function: number(function)?,
                    soft_expires_ns: soft_ns,
                    expires_ns,
                };
                self.timers.start(number(timer)?, armed);
                return Some(());
            }
            Point::TimerExpire { timer, now } => {
                let (timer, now_ns) = (timer.of(data, order)? as u64, now.of(data, order)? as u64);
                let Some(event) = self.timers.expire(timer, now_ns, record.time_ns) else { return Some(()) };
                event
            }
            // The kernel calls this tracepoint on the CPU that the record names.
            Point::IdleState { state } => {
                let state = state.of(data, order)? as u32;
                Event::IdleState(Some(state).filter(|&state| state != IDLE_LEFT))
            }
            Point::Print { text } => {
                self.mention(record, current, None);
                Event::Mark(Mark { tid: current, text: mark(text.of(data, order)?) })
            }
        };
        self.put(record, event);
        Some(())
    }

    fn switch(&mut self, record: &Record<'_>, point: &SwitchPoint) -> Option<()> {
        let (data, order) = (record.data, self.order);
        let (prev, next) = (point.prev.tid_of(data, order)?, point.next.tid_of(data, order)?);
        let prev_state = point.states.of(point.prev_state.of(data, order)?);
        self.mention(record, prev, Some(Comm::new(point.prev_comm.of(data, order)?)));
        self.mention(record, next, Some(Comm::new(point.next_comm.of(data, order)?)));
        let switch = Switch {
            prev,
            next,
            prev_state,
            prev_prio: prio(point.prev_prio.of(data, order)?),
            next_prio: prio(point.next_prio.of(data, order)?),
            stolen_ns: self.stays.switch(record.cpu, record.time_ns, prev, next),
        };
        self.put(record, Event::Switch(switch));
        if prev_state.is_exit() {
            self.names.forget(prev);
            self.stays.forget(prev);
        }
        let woken_early = self.woken_early.remove(&prev).filter(|_| !prev_state.is_runnable());
        if let Some(target_cpu) = woken_early {
            let wakeup = Wakeup { tid: prev, target_cpu, kind: WakeupKind::Again };
            self.put(record, Event::Wakeup(wakeup));
        }
        Some(())
    }

    /// `perf sched record` has wakings but no wake-ups. In such a file a task counts as runnable from its
    /// waking on. If it still had a CPU, it counts as runnable from the switch away from it on.
    fn wake_at_once(&mut self, record: &Record<'_>, tid: Tid, target_cpu: Option<i64>) -> Option<()> {
        if self.catalogue.has("sched_wakeup") {
            return Some(());
        }
        let target_cpu = target_cpu.map_or(Some(record.cpu), cpu)?;
        if self.stays.has_cpu(tid) {
            self.woken_early.insert(tid, target_cpu);
        } else {
            self.put(record, Event::Wakeup(Wakeup { tid, target_cpu, kind: WakeupKind::Again }));
        }
        Some(())
    }

    fn birth(&mut self, record: &Record<'_>, point: &Point, current: Tid) -> Option<()> {
        let (data, order) = (record.data, self.order);
        match point {
            Point::NewTask { tid, comm, clone_flags } => {
                let tid = tid.tid_of(data, order)?;
                let is_thread = clone_flags.of(data, order)? & CLONE_THREAD != 0;
                let maker = self.names.tgid(current).unwrap_or(Tgid(current.0));
                let tgid = if is_thread { maker } else { Tgid(tid.0) };
                let comm = Comm::new(comm.of(data, order)?);
                self.names.forget(tid);
                self.names.learn(tid, Some(tgid), comm);
                if !self.catalogue.has("sched_process_fork") {
                    self.fork(record, current, tid, comm);
                }
            }
            Point::Fork { parent, child, comm } => {
                let (parent, child) = (parent.tid_of(data, order)?, child.tid_of(data, order)?);
                self.fork(record, parent, child, Comm::new(comm.of(data, order)?));
            }
            _ => {}
        }
        Some(())
    }

    /// Adds a new task. If no record has named its process, it counts as a process of its own.
    fn fork(&mut self, record: &Record<'_>, parent: Tid, child: Tid, comm: Comm) {
        self.mention(record, parent, None);
        let child_tgid = self.names.tgid(child).unwrap_or(Tgid(child.0));
        self.names.tell_birth(child, child_tgid, comm);
        self.put(record, Event::Fork(Fork { parent, child, child_tgid, comm }));
        if !self.catalogue.has("sched_wakeup_new") {
            // The kernel wakes a new task right after it has created the task.
            let wakeup = Wakeup { tid: child, target_cpu: record.cpu, kind: WakeupKind::New };
            self.put(record, Event::Wakeup(wakeup));
        }
    }

    /// Notes that `count` events of a CPU are missing before `time_ns`.
    pub(crate) fn lost(&mut self, time_ns: u64, cpu: u16, count: u64) {
        self.stays.lost(cpu);
        self.put(&Record { time_ns, cpu, data: &[] }, Event::Lost(Lost { count }));
    }

    /// Takes a task's name from perf. If perf gives no time, the task had this name before the recording.
    pub(crate) fn perf_comm(&mut self, at: Option<(u64, u16)>, tid: Tid, tgid: Tgid, comm: Comm) {
        let Some((time_ns, cpu)) = at else { return self.names.learn(tid, Some(tgid), comm) };
        let record = Record { time_ns, cpu, data: &[] };
        if self.names.tgid(tid).is_none() {
            self.names.learn(tid, Some(tgid), comm);
        }
        if !self.catalogue.has("task_rename") {
            if let Some(event) = self.names.mention(tid, Some(comm)) {
                self.put(&record, event);
            }
        }
    }

    /// Takes an exec from perf; perf gives the new name after it.
    pub(crate) fn perf_exec(&mut self, (time_ns, cpu): (u64, u16), tid: Tid) {
        if !self.catalogue.has("sched_process_exec") {
            let record = Record { time_ns, cpu, data: &[] };
            self.mention(&record, tid, None);
            self.put(&record, Event::Exec(Exec { tid, old_tid: tid }));
        }
    }

    /// Takes a new task from perf. If perf gives no time, the task was created before the recording.
    pub(crate) fn perf_fork(&mut self, at: Option<(u64, u16)>, parent: Tid, child: Tid, tgid: Tgid) {
        let comm = self.names.comm(parent).unwrap_or_default();
        let Some((time_ns, cpu)) = at else {
            return self.names.learn(child, Some(tgid), comm);
        };
        // If the file has a tracepoint for new tasks, its record comes right after perf's.
        self.names.forget(child);
        self.names.learn(child, Some(tgid), comm);
        if !self.catalogue.has("sched_process_fork") && !self.catalogue.has("task_newtask") {
            self.fork(&Record { time_ns, cpu, data: &[] }, parent, child, comm);
        }
    }

    /// Takes the exit of a task from perf.
    pub(crate) fn perf_exit(&mut self, (time_ns, cpu): (u64, u16), tid: Tid) {
        if !self.catalogue.has("sched_process_exit") {
            self.put(&Record { time_ns, cpu, data: &[] }, Event::Exit(Exit { tid }));
        }
    }
}

/// A CPU's number in a record; `None` for a number that no CPU can have.
fn cpu(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&cpu| u64::from(cpu) < CPU_MAX)
}

/// The context in which a record was made.
fn context(flags: i64) -> Context {
    match flags {
        _ if flags & (FLAG_HARDIRQ | FLAG_NMI) != 0 => Context::Hardirq,
        _ if flags & FLAG_SOFTIRQ != 0 => Context::Softirq,
        _ => Context::Task,
    }
}

fn interrupt(irq: Irq, edge: Edge) -> Event {
    if edge == Edge::Enter { Event::IrqEnter(irq) } else { Event::IrqExit(irq) }
}

/// The kernel's priority; priorities of deadline tasks are below 0.
fn prio(prio: i64) -> u8 {
    if prio < 0 { PRIO_DEADLINE } else { u8::try_from(prio).unwrap_or(u8::MAX - 1) }
}

/// A line that a program wrote to `trace_marker`.
fn mark(text: &[u8]) -> Box<str> {
    let len = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let text = String::from_utf8_lossy(text[..len].trim_ascii());
    let cut = (0..=Mark::MAX_BYTES.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text[..cut.unwrap_or(0)].into()
}
