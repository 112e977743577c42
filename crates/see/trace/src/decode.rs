//! Decodes the bytes of one CPU's stream into events. Every value is checked, since a file may be damaged.

use std::sync::Arc;

use crate::encode::{NEXT_LONG, PRIO_DEFAULT};
use crate::event::{
    Affinity, Channel, ChannelKind, Comm, Context, Direction, Event, Exec, Exit, Fork, Ipc, Irq, Limit, Lost,
    Mark, Migrate, NeedResched, Numbers, Policy, PrevState, Prio, Rename, Softirq, Stack, StatState, Switch,
    TaskInfo, TaskStat, Tgid, Throttled, Tick, Tid, TimerExpire, TimerKind, Urgency, Wakeup, WakeupKind,
    Waking,
};
use crate::format::{
    CODE_BITS, CPU_MAX, FLAG_A, FLAG_B, FLAG_C, FRAMES_MAX, PREDICTED_TIME_BITS, STOLEN_GRAIN_NS,
    SYMBOL_BYTES_MAX, SYMBOLS_MAX, TID_MAX, code, extended,
};
use crate::predict::{Predictor, Shape};
use crate::varint::{Cursor, unzigzag};

/// A task that the block has introduced.
#[derive(Clone, Copy)]
struct BlockTask {
    tid: Tid,
    prio: u8,
}

/// The decoder's state within one block: the tasks and symbols introduced so far, and the predictions.
pub(crate) struct Decoder {
    cpu: u16,
    last_ns: u64,
    tasks: Vec<BlockTask>,
    symbols: Vec<Arc<str>>,
    /// Bytes of all symbols.
    symbol_bytes: usize,
    current: Option<u32>,
    last_wakee: Option<u32>,
    tick_ns: u64,
    tick_due_ns: Option<u64>,
    predictor: Predictor,
}

/// The memory of a symbol beside its text, bytes: a pointer with a length, and two reference counts.
const SYMBOL_HEAD_BYTES: usize = 32;

/// The result of reading one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadOutcome {
    /// The record is an event or describes a task. Its time is [`Decoder::last_ns`].
    Event,
    /// The record has nothing for the caller: it is internal to the stream, or of a later version.
    Nothing,
}

impl Decoder {
    /// A decoder at the start of a block.
    pub(crate) fn new(cpu: u16, tick_ns: u64, first_ns: u64) -> Decoder {
        let idle = BlockTask { tid: Tid::IDLE, prio: PRIO_DEFAULT };
        Decoder {
            cpu,
            last_ns: first_ns,
            tasks: vec![idle],
            symbols: Vec::new(),
            symbol_bytes: 0,
            current: None,
            last_wakee: None,
            tick_ns,
            tick_due_ns: None,
            predictor: Predictor::default(),
        }
    }

    /// The memory of the tables of tasks and symbols, bytes.
    pub(crate) fn table_bytes(&self) -> usize {
        self.tasks.capacity() * size_of::<BlockTask>() + self.symbol_bytes
    }

    /// The time of the last record, ns of the trace's clock.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Reads the next record and stores its event in `to`. Returns `None` if the bytes are no valid record.
    #[inline]
    pub(crate) fn next(&mut self, cursor: &mut Cursor<'_>, to: &mut Event) -> Option<ReadOutcome> {
        let first = cursor.byte()?;
        let code = first & ((1 << CODE_BITS) - 1);
        if code == code::DEFINE || code == code::CURRENT {
            return self.own(code, cursor, to);
        }
        let time = cursor.varint()?;
        if code != code::PREDICTED {
            let rest_at = cursor.position();
            let told = self.record(first, time, cursor, to)?;
            self.predictor.learn(Shape::at(first, cursor.bytes(), rest_at, cursor.position() - rest_at));
            return Some(told);
        }
        let time = time.checked_mul(1 << PREDICTED_TIME_BITS)? | u64::from(first >> CODE_BITS);
        let shape = self.predictor.guess();
        let (first, rest, len) = shape.parts()?;
        self.predictor.confirm(shape);
        let mut cursor = Cursor::new(&rest[..len]);
        let told = self.record(first, time, &mut cursor, to)?;
        cursor.is_empty().then_some(told)
    }

    /// Reads a record that has no time.
    fn own(&mut self, code: u8, cursor: &mut Cursor<'_>, to: &mut Event) -> Option<ReadOutcome> {
        if code == code::DEFINE {
            let info = self.define(cursor)?;
            *to = Event::Task(TaskInfo { inner: self.inner(cursor)?, ..info });
            return Some(ReadOutcome::Event);
        }
        self.current = Some(self.index(cursor)?);
        Some(ReadOutcome::Nothing)
    }

    /// Reads the rest of a record, after its first byte and its time.
    #[inline(always)]
    fn record(
        &mut self,
        first: u8,
        time: u64,
        cursor: &mut Cursor<'_>,
        to: &mut Event,
    ) -> Option<ReadOutcome> {
        let code = first & ((1 << CODE_BITS) - 1);
        if code == code::TICK && first & FLAG_A != 0 {
            *to = self.tick_on_time(time, cursor)?;
            return Some(ReadOutcome::Event);
        }
        self.last_ns = self.last_ns.checked_add(time)?;
        match code {
            code::SWITCH => put(to, self.switch(first, cursor)?),
            code::WAKING => put(to, self.waking(first, cursor)?),
            code::WAKEUP => put(to, self.wakeup(first, cursor)?),
            code::EXTENDED => {
                let number = cursor.varint()?;
                let len = usize::try_from(cursor.varint()?).ok()?;
                let mut content = Cursor::new(cursor.take(len)?);
                match number {
                    extended::THROTTLED => *to = self.throttled(&mut content)?,
                    extended::IDLE_STATE => put(to, idle_state(&mut content)?),
                    extended::AFFINITY => put(to, self.affinity(&mut content)?),
                    _ => return Some(ReadOutcome::Nothing),
                }
            }
            _ => *to = self.rare(code, first, cursor)?,
        }
        Some(ReadOutcome::Event)
    }

    /// Reads a tick due whole periods after the previous tick. Its time is its due time plus `late`, ns.
    fn tick_on_time(&mut self, late: u64, cursor: &mut Cursor<'_>) -> Option<Event> {
        let due_ns = self.tick_due_ns?.checked_add(cursor.varint()?.checked_mul(self.tick_ns)?)?;
        let time_ns = due_ns.checked_add_signed(unzigzag(late))?;
        if time_ns < self.last_ns {
            return None;
        }
        self.tick_due_ns = Some(due_ns);
        self.last_ns = time_ns;
        Some(Event::Tick(Tick { due_ns }))
    }

    #[inline]
    fn index(&self, cursor: &mut Cursor<'_>) -> Option<u32> {
        let index = cursor.varint()?;
        (index < self.tasks.len() as u64).then_some(index as u32)
    }

    #[inline]
    fn tid(&self, cursor: &mut Cursor<'_>) -> Option<Tid> {
        let index = self.index(cursor)?;
        Some(self.tasks[index as usize].tid)
    }

    /// Reads the numbers in the recorder's PID namespace of the task that was just introduced,
    /// if they follow.
    fn inner(&mut self, cursor: &mut Cursor<'_>) -> Option<Option<Numbers>> {
        let mut ahead = cursor.clone();
        if ahead.byte() != Some(code::EXTENDED) || ahead.varint() != Some(0) {
            return Some(None);
        }
        let rest_at = ahead.position();
        if ahead.varint() != Some(extended::INNER) {
            return Some(None);
        }
        let len = usize::try_from(ahead.varint()?).ok()?;
        let mut content = Cursor::new(ahead.take(len)?);
        let numbers = Numbers { tid: raw_tid(&mut content)?, tgid: Tgid(raw_tid(&mut content)?.0) };
        let shape = Shape::at(code::EXTENDED, ahead.bytes(), rest_at, ahead.position() - rest_at);
        self.predictor.learn(shape);
        *cursor = ahead;
        Some(Some(numbers))
    }

    fn define(&mut self, cursor: &mut Cursor<'_>) -> Option<TaskInfo> {
        let tid = raw_tid(cursor)?;
        let tgid = i64::from(tid.0).checked_sub(unzigzag(cursor.varint()?))?;
        let tgid = Tgid(u32::try_from(tgid).ok().filter(|&tgid| u64::from(tgid) <= TID_MAX)?);
        let comm = comm(cursor)?;
        if self.tasks.len() as u64 > TID_MAX {
            return None;
        }
        self.tasks.push(BlockTask { tid, prio: PRIO_DEFAULT });
        Some(TaskInfo::new(tid, tgid, comm))
    }

    #[inline(always)]
    fn switch(&mut self, first: u8, cursor: &mut Cursor<'_>) -> Option<Event> {
        let second = cursor.byte()?;
        let prev_state = PrevState::from_number(second & 0xf)?;
        let mut next = u32::from(second >> 4);
        if next == u32::from(NEXT_LONG) {
            next = self.index(cursor)?;
        } else if next as usize >= self.tasks.len() {
            return None;
        }
        let prev = if first & FLAG_A != 0 { self.index(cursor)? } else { self.current? };
        let stolen_ns = if first & FLAG_B != 0 { stolen(cursor.varint()?)? } else { 0 };
        if first & FLAG_C != 0 {
            self.tasks[prev as usize].prio = cursor.byte()?;
            self.tasks[next as usize].prio = cursor.byte()?;
        }
        self.current = Some(next);
        let (prev, next) = (self.tasks[prev as usize], self.tasks[next as usize]);
        Some(Event::Switch(Switch {
            prev: prev.tid,
            next: next.tid,
            prev_state,
            prev_prio: prev.prio,
            next_prio: next.prio,
            stolen_ns,
        }))
    }

    #[inline(always)]
    fn waking(&mut self, first: u8, cursor: &mut Cursor<'_>) -> Option<Event> {
        let wakee = self.index(cursor)?;
        let waker = if first & FLAG_C != 0 { self.index(cursor)? } else { self.current? };
        let context = match first & (FLAG_A | FLAG_B) {
            0 => Context::Task,
            FLAG_A => Context::Softirq,
            FLAG_B => Context::Hardirq,
            _ => Context::Unknown,
        };
        self.last_wakee = Some(wakee);
        let (waker, wakee) = (self.tasks[waker as usize].tid, self.tasks[wakee as usize].tid);
        Some(Event::Waking(Waking { waker, wakee, context }))
    }

    #[inline(always)]
    fn wakeup(&mut self, first: u8, cursor: &mut Cursor<'_>) -> Option<Event> {
        let task = if first & FLAG_A != 0 { self.index(cursor)? } else { self.last_wakee? };
        let target_cpu = if first & FLAG_B != 0 { raw_cpu(cursor)? } else { self.cpu };
        let kind = if first & FLAG_C != 0 { WakeupKind::New } else { WakeupKind::Again };
        Some(Event::Wakeup(Wakeup { tid: self.tasks[task as usize].tid, target_cpu, kind }))
    }

    fn rare(&mut self, code: u8, first: u8, cursor: &mut Cursor<'_>) -> Option<Event> {
        Some(match code {
            code::FORK => Event::Fork(Fork {
                parent: self.tid(cursor)?,
                child: raw_tid(cursor)?,
                child_tgid: Tgid(raw_tid(cursor)?.0),
                comm: comm(cursor)?,
            }),
            code::EXEC => Event::Exec(Exec { tid: self.tid(cursor)?, old_tid: raw_tid(cursor)? }),
            code::EXIT => Event::Exit(Exit { tid: self.tid(cursor)? }),
            code::COMM => Event::Comm(Rename { tid: self.tid(cursor)?, comm: comm(cursor)? }),
            code::PRIO => Event::Prio(Prio {
                tid: self.tid(cursor)?,
                policy: Policy::from_number(cursor.byte()?)?,
                prio: cursor.byte()?,
            }),
            code::MIGRATE => {
                let (tid, to_cpu) = (self.tid(cursor)?, raw_cpu(cursor)?);
                let from_cpu = if first & FLAG_A != 0 { self.cpu } else { raw_cpu(cursor)? };
                Event::Migrate(Migrate { tid, from_cpu, to_cpu })
            }
            code::TICK => {
                let due_ns = self.earlier(cursor)?;
                self.tick_due_ns = Some(due_ns);
                Event::Tick(Tick { due_ns })
            }
            code::TIMER_EXPIRE => self.timer_expire(cursor)?,
            code::IRQ_ENTER => Event::IrqEnter(irq(first, cursor)?),
            code::IRQ_EXIT => Event::IrqExit(irq(first, cursor)?),
            code::SOFTIRQ_ENTER => Event::SoftirqEnter(softirq(cursor)?),
            code::SOFTIRQ_EXIT => Event::SoftirqExit(softirq(cursor)?),
            code::NEED_RESCHED => Event::NeedResched(NeedResched {
                tid: self.tid(cursor)?,
                target_cpu: raw_cpu(cursor)?,
                urgency: if first & FLAG_A != 0 { Urgency::Lazy } else { Urgency::Now },
            }),
            code::SCHEDULE_ENTER => Event::ScheduleEnter,
            code::SCHEDULE_EXIT => Event::ScheduleExit,
            code::IPC => self.ipc(first, cursor)?,
            code::MARK => {
                let tid = self.tid(cursor)?;
                Event::Mark(Mark { tid, text: text(cursor, Mark::MAX_BYTES)?.into() })
            }
            code::STACK => self.stack(cursor)?,
            code::LOST => {
                self.current = None;
                Event::Lost(Lost { count: cursor.varint()? })
            }
            code::STAT => Event::Stat(TaskStat {
                tid: self.tid(cursor)?,
                state: stat_state(cursor.varint()?)?,
                exec_ns: cursor.varint()?,
                utime_ns: cursor.varint()?,
                stime_ns: cursor.varint()?,
            }),
            _ => return None,
        })
    }

    fn throttled(&self, cursor: &mut Cursor<'_>) -> Option<Event> {
        let tid = self.tid(cursor)?;
        let throttled_ns = cursor.varint()?.checked_sub(1);
        let (quota_ns, period_ns) = (cursor.varint()?, cursor.varint()?);
        let group = text(cursor, Limit::PATH_BYTES_MAX)?.into();
        let limit = Arc::new(Limit { group, quota_ns, period_ns });
        Some(Event::Throttled(Throttled { tid, throttled_ns, limit }))
    }

    fn affinity(&self, cursor: &mut Cursor<'_>) -> Option<Event> {
        let (tid, cpus) = (self.tid(cursor)?, cursor.varint()?);
        let cpus = u16::try_from(cpus).ok().filter(|&cpus| cpus > 0 && u64::from(cpus) <= CPU_MAX)?;
        Some(Event::Affinity(Affinity { tid, cpus }))
    }

    fn earlier(&self, cursor: &mut Cursor<'_>) -> Option<u64> {
        Some(self.last_ns.wrapping_sub(unzigzag(cursor.varint()?) as u64))
    }

    fn timer_expire(&mut self, cursor: &mut Cursor<'_>) -> Option<Event> {
        let tid = self.tid(cursor)?;
        let kind = match cursor.varint()? {
            0 => TimerKind::Sleep,
            1 => TimerKind::Timerfd,
            2 => TimerKind::Posix,
            3 => TimerKind::Itimer,
            4 => TimerKind::Wheel,
            5 => TimerKind::Other,
            _ => return None,
        };
        let deadline_ns = self.earlier(cursor)?;
        let latest_ns = deadline_ns.saturating_add(cursor.varint()?);
        Some(Event::TimerExpire(TimerExpire { tid, kind, deadline_ns, latest_ns }))
    }

    fn ipc(&mut self, first: u8, cursor: &mut Cursor<'_>) -> Option<Event> {
        let tid = self.tid(cursor)?;
        let kind = match first & (FLAG_A | FLAG_B) {
            0 => ChannelKind::Pipe,
            FLAG_A => ChannelKind::Unix,
            FLAG_B => ChannelKind::Inet,
            _ => ChannelKind::Tty,
        };
        let direction = if first & FLAG_C != 0 { Direction::Read } else { Direction::Write };
        let channel = Channel { kind, id: cursor.varint()? };
        let bytes = u32::try_from(cursor.varint()?).ok()?;
        Some(Event::Ipc(Ipc { tid, direction, channel, bytes }))
    }

    fn stack(&mut self, cursor: &mut Cursor<'_>) -> Option<Event> {
        let tid = self.tid(cursor)?;
        let count = usize::try_from(cursor.varint()?).ok().filter(|&count| count <= FRAMES_MAX)?;
        let mut frames = Vec::with_capacity(count);
        for _ in 0..count {
            let index = usize::try_from(cursor.varint()?).ok()?;
            if index == 0 {
                if self.symbols.len() >= SYMBOLS_MAX {
                    self.symbols.clear();
                    self.symbol_bytes = 0;
                }
                self.symbols.push(text(cursor, SYMBOL_BYTES_MAX)?.into());
                self.symbol_bytes += SYMBOL_HEAD_BYTES + self.symbols.last()?.len();
                frames.push(Arc::clone(self.symbols.last()?));
            } else {
                frames.push(Arc::clone(self.symbols.get(index - 1)?));
            }
        }
        Some(Event::Stack(Stack { tid, frames: frames.into() }))
    }
}

fn idle_state(cursor: &mut Cursor<'_>) -> Option<Event> {
    let state = match cursor.varint()?.checked_sub(1) {
        Some(state) => Some(u32::try_from(state).ok()?),
        None => None,
    };
    Some(Event::IdleState(state))
}

/// Stores an event in `to`. The old event is dropped only if it owns memory; most events own none.
#[inline(always)]
fn put(to: &mut Event, event: Event) {
    if matches!(to, Event::Mark(_) | Event::Stack(_) | Event::Throttled(_)) {
        *to = Event::ScheduleExit;
    }
    std::mem::forget(std::mem::replace(to, event));
}

fn stolen(number: u64) -> Option<i32> {
    let ns = i32::try_from(unzigzag(number >> 1)).ok()?;
    if number & 1 != 0 { ns.checked_mul(STOLEN_GRAIN_NS) } else { Some(ns) }
}

fn raw_tid(cursor: &mut Cursor<'_>) -> Option<Tid> {
    let tid = cursor.varint()?;
    (tid <= TID_MAX).then_some(Tid(tid as u32))
}

fn raw_cpu(cursor: &mut Cursor<'_>) -> Option<u16> {
    let cpu = cursor.varint()?;
    (cpu < CPU_MAX).then_some(cpu as u16)
}

fn comm(cursor: &mut Cursor<'_>) -> Option<Comm> {
    let len = usize::from(cursor.byte()?);
    if len > 15 {
        return None;
    }
    cursor.take(len).map(Comm::new)
}

fn text<'a>(cursor: &mut Cursor<'a>, max: usize) -> Option<&'a str> {
    let len = usize::try_from(cursor.varint()?).ok().filter(|&len| len <= max)?;
    std::str::from_utf8(cursor.take(len)?).ok()
}

fn softirq(cursor: &mut Cursor<'_>) -> Option<Softirq> {
    u8::try_from(cursor.varint()?).ok().map(Softirq)
}

fn irq(first: u8, cursor: &mut Cursor<'_>) -> Option<Irq> {
    Some(match first >> CODE_BITS {
        0 => Irq::Device(u16::try_from(cursor.varint()?).ok()?),
        1 => Irq::LocalTimer,
        2 => Irq::Reschedule,
        3 => Irq::CallFunction,
        4 => Irq::IrqWork,
        _ => return None,
    })
}

fn stat_state(number: u64) -> Option<StatState> {
    Some(match number {
        0 => StatState::Running,
        1 => StatState::Runnable,
        2 => StatState::Blocked,
        3 => StatState::Exited,
        _ => return None,
    })
}
