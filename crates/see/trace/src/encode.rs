//! Turns one CPU's events into the bytes of its stream.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::{
    Affinity, Channel, Comm, Context, Direction, Event, Irq, Limit, Stack, Switch, TaskInfo, Tgid, Throttled,
    Tid, TimerExpire, Urgency, Wakeup, WakeupKind, Waking,
};
use crate::format::{
    CODE_BITS, FLAG_A, FLAG_B, FLAG_C, FRAMES_MAX, PREDICTED_TIME_BITS, STOLEN_GRAIN_NS, SYMBOL_BYTES_MAX,
    SYMBOLS_MAX, code, extended,
};
use crate::predict::{Predictor, Shape};
use crate::varint::{len, put, zigzag};

/// The number, process and name of each known task, for blocks to restate.
pub(crate) type Names = FxHashMap<Tid, TaskInfo>;

/// A task that the block has introduced: its number in the block, and its last priority.
#[derive(Clone, Copy)]
struct TaskNumber {
    index: u32,
    prio: u8,
}

/// One CPU's stream. [`Stream::start_block`] resets the state of the block.
#[derive(Default)]
pub(crate) struct Stream {
    /// The bytes of the segment that is being filled.
    pub(crate) bytes: Vec<u8>,
    /// Events in the segment.
    pub(crate) count: u64,
    tasks: FxHashMap<Tid, TaskNumber>,
    tasks_defined: u32,
    symbols: FxHashMap<Arc<str>, u32>,
    current: Option<Tid>,
    last_wakee: Option<Tid>,
    last_ns: u64,
    /// The time between ticks, ns, 0 if unknown; below, the due time of the block's last tick, ns.
    tick_ns: u64,
    tick_due_ns: Option<u64>,
    predictor: Predictor,
    written: LastRecord,
}

/// The last record: the offsets of its first byte and of the bytes after its time, and the time as encoded.
#[derive(Clone, Copy, Default)]
struct LastRecord {
    first_at: usize,
    rest_at: usize,
    time: u64,
}

impl Stream {
    /// A stream of a machine with ticks `tick_ns` apart; 0 if that is unknown.
    pub(crate) fn new(tick_ns: u64) -> Stream {
        Stream { tick_ns, ..Stream::default() }
    }

    /// The time from which the next event's time is counted.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Resets the state of the block, except for the running task, which the new block restates.
    pub(crate) fn start_block(&mut self, first_ns: u64, names: &Names) {
        self.tasks.clear();
        self.tasks.insert(Tid::IDLE, TaskNumber { index: 0, prio: PRIO_DEFAULT });
        self.tasks_defined = 0;
        self.symbols.clear();
        self.last_wakee = None;
        self.tick_due_ns = None;
        self.predictor.clear();
        self.last_ns = self.last_ns.max(first_ns);
        if let Some(current) = self.current {
            let index = self.task(current, names);
            self.bytes.push(code::CURRENT);
            put(&mut self.bytes, index);
        }
    }

    /// Appends one event. An event that is older than the event before it gets that event's time.
    pub(crate) fn push(&mut self, time_ns: u64, cpu: u16, event: &Event, names: &Names) {
        match event {
            Event::Switch(switch) => self.switch(time_ns, switch, names),
            Event::Waking(waking) => self.waking(time_ns, waking, names),
            Event::Wakeup(wakeup) => self.wakeup(time_ns, cpu, wakeup, names),
            Event::Task(_) => return,
            other => self.rare(time_ns, cpu, other, names),
        }
        self.shorten();
        self.count += u64::from(event.is_counted());
    }

    /// Writes a record's first byte, then the time since the previous event, ns.
    fn head(&mut self, first: u8, time_ns: u64) {
        let since_ns = time_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(time_ns);
        self.head_with(first, since_ns);
    }

    fn head_with(&mut self, first: u8, time: u64) {
        let first_at = self.bytes.len();
        self.bytes.push(first);
        put(&mut self.bytes, time);
        self.written = LastRecord { first_at, rest_at: self.bytes.len(), time };
    }

    /// If a reader will guess the record that was just written, takes it back and writes its short form.
    fn shorten(&mut self) {
        let LastRecord { first_at, rest_at, time } = self.written;
        let shape = Shape::new(self.bytes[first_at], &self.bytes[rest_at..]);
        if shape == Some(self.predictor.guess()) {
            self.bytes.truncate(first_at);
            let low = time as u8 & ((1 << PREDICTED_TIME_BITS) - 1);
            self.bytes.push(code::PREDICTED | (low << CODE_BITS));
            put(&mut self.bytes, time >> PREDICTED_TIME_BITS);
        }
        self.predictor.learn(shape);
    }

    /// The block's number for a task; 0 is idle. A task that the block has not mentioned yet is introduced
    /// first.
    fn task(&mut self, tid: Tid, names: &Names) -> u64 {
        if let Some(known) = self.tasks.get(&tid) {
            return u64::from(known.index);
        }
        self.tasks_defined += 1;
        let index = self.tasks_defined;
        let unknown = || TaskInfo::new(tid, Tgid(0), Comm::default());
        let info = names.get(&tid).copied().unwrap_or_else(unknown);
        self.tasks.insert(tid, TaskNumber { index, prio: PRIO_DEFAULT });
        self.bytes.push(code::DEFINE);
        put(&mut self.bytes, u64::from(tid.0));
        put(&mut self.bytes, zigzag(i64::from(tid.0) - i64::from(info.tgid.0)));
        put_comm(&mut self.bytes, &info.comm);
        if let Some(inner) = info.inner {
            self.extended(extended::INNER, &[u64::from(inner.tid.0), u64::from(inner.tgid.0)]);
        }
        u64::from(index)
    }

    /// Writes a record that readers of an earlier minor version pass over. The record has the time of the
    /// event before it. It is never shortened, but readers learn its shape as that of any record.
    fn extended(&mut self, number: u64, numbers: &[u64]) {
        let first_at = self.bytes.len();
        self.bytes.push(code::EXTENDED);
        put(&mut self.bytes, 0);
        let rest_at = self.bytes.len();
        let mut content = Vec::with_capacity(16);
        numbers.iter().for_each(|&number| put(&mut content, number));
        put(&mut self.bytes, number);
        put(&mut self.bytes, content.len() as u64);
        self.bytes.extend(content);
        let shape = Shape::new(self.bytes[first_at], &self.bytes[rest_at..]);
        self.predictor.learn(shape);
    }

    fn prio(&self, tid: Tid) -> u8 {
        self.tasks.get(&tid).map_or(PRIO_DEFAULT, |known| known.prio)
    }

    fn set_prio(&mut self, tid: Tid, prio: u8) {
        if let Some(known) = self.tasks.get_mut(&tid) {
            known.prio = prio;
        }
    }

    fn switch(&mut self, time_ns: u64, switch: &Switch, names: &Names) {
        let prev = self.task(switch.prev, names);
        let next = self.task(switch.next, names);
        let prev_given = self.current != Some(switch.prev);
        let prio_given =
            self.prio(switch.prev) != switch.prev_prio || self.prio(switch.next) != switch.next_prio;
        let mut first = code::SWITCH;
        if prev_given {
            first |= FLAG_A;
        }
        if switch.stolen_ns != 0 {
            first |= FLAG_B;
        }
        if prio_given {
            first |= FLAG_C;
        }
        self.head(first, time_ns);
        let short = next.min(u64::from(NEXT_LONG)) as u8;
        self.bytes.push(switch.prev_state as u8 | (short << 4));
        if short == NEXT_LONG {
            put(&mut self.bytes, next);
        }
        if prev_given {
            put(&mut self.bytes, prev);
        }
        if switch.stolen_ns != 0 {
            put(&mut self.bytes, stolen(switch.stolen_ns));
        }
        if prio_given {
            self.bytes.push(switch.prev_prio);
            self.bytes.push(switch.next_prio);
            self.set_prio(switch.prev, switch.prev_prio);
            self.set_prio(switch.next, switch.next_prio);
        }
        self.current = Some(switch.next);
    }

    fn waking(&mut self, time_ns: u64, waking: &Waking, names: &Names) {
        let waker_given = self.current != Some(waking.waker);
        let waker = self.task(waking.waker, names);
        let wakee = self.task(waking.wakee, names);
        let context = match waking.context {
            Context::Task => 0,
            Context::Softirq => FLAG_A,
            Context::Hardirq => FLAG_B,
            Context::Unknown => FLAG_A | FLAG_B,
        };
        self.head(code::WAKING | context | if waker_given { FLAG_C } else { 0 }, time_ns);
        put(&mut self.bytes, wakee);
        if waker_given {
            put(&mut self.bytes, waker);
        }
        self.last_wakee = Some(waking.wakee);
    }

    fn wakeup(&mut self, time_ns: u64, cpu: u16, wakeup: &Wakeup, names: &Names) {
        let tid_given = self.last_wakee != Some(wakeup.tid);
        let target_given = wakeup.target_cpu != cpu;
        let task = self.task(wakeup.tid, names);
        let mut first = code::WAKEUP;
        if tid_given {
            first |= FLAG_A;
        }
        if target_given {
            first |= FLAG_B;
        }
        if wakeup.kind == WakeupKind::New {
            first |= FLAG_C;
        }
        self.head(first, time_ns);
        if tid_given {
            put(&mut self.bytes, task);
        }
        if target_given {
            put(&mut self.bytes, u64::from(wakeup.target_cpu));
        }
    }

    /// Appends an event of any other kind. These kinds are rare, so that speed matters little here.
    fn rare(&mut self, time_ns: u64, cpu: u16, event: &Event, names: &Names) {
        match *event {
            Event::Fork(fork) => {
                let parent = self.task(fork.parent, names);
                self.head(code::FORK, time_ns);
                self.numbers(&[parent, u64::from(fork.child.0), u64::from(fork.child_tgid.0)]);
                put_comm(&mut self.bytes, &fork.comm);
                self.tasks.remove(&fork.child);
            }
            Event::Exec(exec) => {
                self.with_task(code::EXEC, time_ns, exec.tid, &[u64::from(exec.old_tid.0)], names)
            }
            Event::Exit(exit) => self.with_task(code::EXIT, time_ns, exit.tid, &[], names),
            Event::Comm(rename) => {
                self.with_task(code::COMM, time_ns, rename.tid, &[], names);
                put_comm(&mut self.bytes, &rename.comm);
            }
            Event::Prio(prio) => {
                self.with_task(code::PRIO, time_ns, prio.tid, &[], names);
                self.bytes.extend([prio.policy as u8, prio.prio]);
            }
            Event::Migrate(migrate) => {
                let away = migrate.from_cpu == cpu;
                let first = code::MIGRATE | if away { FLAG_A } else { 0 };
                self.with_task(first, time_ns, migrate.tid, &[u64::from(migrate.to_cpu)], names);
                if !away {
                    put(&mut self.bytes, u64::from(migrate.from_cpu));
                }
            }
            Event::Tick(tick) => self.tick(time_ns, tick.due_ns),
            Event::TimerExpire(expire) => self.timer_expire(time_ns, &expire, names),
            Event::IrqEnter(irq) => self.irq(code::IRQ_ENTER, time_ns, irq),
            Event::IrqExit(irq) => self.irq(code::IRQ_EXIT, time_ns, irq),
            Event::SoftirqEnter(softirq) => self.plain(code::SOFTIRQ_ENTER, time_ns, &[u64::from(softirq.0)]),
            Event::SoftirqExit(softirq) => self.plain(code::SOFTIRQ_EXIT, time_ns, &[u64::from(softirq.0)]),
            Event::NeedResched(need) => {
                let lazy = if need.urgency == Urgency::Lazy { FLAG_A } else { 0 };
                let target = u64::from(need.target_cpu);
                self.with_task(code::NEED_RESCHED | lazy, time_ns, need.tid, &[target], names);
            }
            Event::ScheduleEnter => self.plain(code::SCHEDULE_ENTER, time_ns, &[]),
            Event::ScheduleExit => self.plain(code::SCHEDULE_EXIT, time_ns, &[]),
            Event::IdleState(state) => self.idle_state(time_ns, state),
            Event::Ipc(ipc) => {
                let first = code::IPC | channel_flags(ipc.channel, ipc.direction);
                self.with_task(first, time_ns, ipc.tid, &[ipc.channel.id, u64::from(ipc.bytes)], names);
            }
            Event::Mark(ref mark) => {
                let text = cut(&mark.text, crate::event::Mark::MAX_BYTES);
                self.with_task(code::MARK, time_ns, mark.tid, &[text.len() as u64], names);
                self.bytes.extend(text.as_bytes());
            }
            Event::Stack(ref stack) => self.stack(time_ns, stack, names),
            Event::Lost(lost) => {
                self.plain(code::LOST, time_ns, &[lost.count]);
                self.current = None;
            }
            Event::Stat(stat) => {
                let numbers = [stat.state as u64, stat.exec_ns, stat.utime_ns, stat.stime_ns];
                self.with_task(code::STAT, time_ns, stat.tid, &numbers, names);
            }
            Event::Throttled(ref throttled) => self.throttled(time_ns, throttled, names),
            Event::Affinity(affinity) => self.affinity(time_ns, affinity, names),
            Event::Switch(_) | Event::Waking(_) | Event::Wakeup(_) | Event::Task(_) => {}
        }
    }

    fn throttled(&mut self, time_ns: u64, throttled: &Throttled, names: &Names) {
        let Limit { group, quota_ns, period_ns } = &*throttled.limit;
        let group = cut(group, Limit::PATH_BYTES_MAX);
        let so_far = throttled.throttled_ns.map_or(0, |ns| ns.saturating_add(1));
        let task = self.task(throttled.tid, names);
        let mut content = Vec::with_capacity(32 + group.len());
        for number in [task, so_far, *quota_ns, *period_ns, group.len() as u64] {
            put(&mut content, number);
        }
        content.extend(group.as_bytes());
        self.plain(code::EXTENDED, time_ns, &[extended::THROTTLED, content.len() as u64]);
        self.bytes.extend(content);
    }

    fn affinity(&mut self, time_ns: u64, affinity: Affinity, names: &Names) {
        let (task, cpus) = (self.task(affinity.tid, names), u64::from(affinity.cpus));
        let bytes = (len(task) + len(cpus)) as u64;
        self.plain(code::EXTENDED, time_ns, &[extended::AFFINITY, bytes, task, cpus]);
    }

    fn idle_state(&mut self, time_ns: u64, state: Option<u32>) {
        let number = state.map_or(0, |state| u64::from(state) + 1);
        self.plain(code::EXTENDED, time_ns, &[extended::IDLE_STATE, len(number) as u64, number]);
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for &number in numbers {
            put(&mut self.bytes, number);
        }
    }

    fn plain(&mut self, first: u8, time_ns: u64, numbers: &[u64]) {
        self.head(first, time_ns);
        self.numbers(numbers);
    }

    fn with_task(&mut self, first: u8, time_ns: u64, tid: Tid, numbers: &[u64], names: &Names) {
        let task = self.task(tid, names);
        self.head(first, time_ns);
        put(&mut self.bytes, task);
        self.numbers(numbers);
    }

    /// Writes a tick. If it is due whole periods after the previous tick, its lateness stands for its time.
    fn tick(&mut self, time_ns: u64, due_ns: u64) {
        let time_ns = time_ns.max(self.last_ns);
        let passed_ns = self.tick_due_ns.replace(due_ns).and_then(|last_ns| due_ns.checked_sub(last_ns));
        let late = since(time_ns, due_ns);
        match passed_ns {
            Some(passed_ns) if self.tick_ns > 0 && passed_ns % self.tick_ns == 0 => {
                self.head_with(code::TICK | FLAG_A, late);
                self.last_ns = time_ns;
                put(&mut self.bytes, passed_ns / self.tick_ns);
            }
            _ => self.plain(code::TICK, time_ns, &[late]),
        }
    }

    fn timer_expire(&mut self, time_ns: u64, expire: &TimerExpire, names: &Names) {
        let slack = expire.latest_ns.saturating_sub(expire.deadline_ns);
        let numbers = [expire.kind as u64, since(time_ns, expire.deadline_ns), slack];
        self.with_task(code::TIMER_EXPIRE, time_ns, expire.tid, &numbers, names);
    }

    fn irq(&mut self, code: u8, time_ns: u64, irq: Irq) {
        let (kind, line) = match irq {
            Irq::Device(line) => (0, Some(line)),
            Irq::LocalTimer => (1, None),
            Irq::Reschedule => (2, None),
            Irq::CallFunction => (3, None),
            Irq::IrqWork => (4, None),
        };
        self.head(code | (kind << 5), time_ns);
        if let Some(line) = line {
            put(&mut self.bytes, u64::from(line));
        }
    }

    fn stack(&mut self, time_ns: u64, stack: &Stack, names: &Names) {
        let frames = &stack.frames[..stack.frames.len().min(FRAMES_MAX)];
        self.with_task(code::STACK, time_ns, stack.tid, &[frames.len() as u64], names);
        for frame in frames {
            if let Some(&index) = self.symbols.get(frame) {
                put(&mut self.bytes, u64::from(index));
                continue;
            }
            let text = cut(frame, SYMBOL_BYTES_MAX);
            put(&mut self.bytes, 0);
            put(&mut self.bytes, text.len() as u64);
            self.bytes.extend(text.as_bytes());
            if self.symbols.len() >= SYMBOLS_MAX {
                self.symbols.clear();
            }
            let index = self.symbols.len() as u32 + 1;
            self.symbols.insert(Arc::clone(frame), index);
        }
    }
}

/// The priority of a task until a record of the block states another: 120, which is nice 0.
pub(crate) const PRIO_DEFAULT: u8 = 120;
/// The value in a switch's second byte after which the next task's number follows as a varint.
pub(crate) const NEXT_LONG: u8 = 15;

/// Flags of an IPC record: the channel's kind in the first two, reading in the third.
fn channel_flags(channel: Channel, direction: Direction) -> u8 {
    let kind = (channel.kind as u8) << 5;
    match direction {
        Direction::Write => kind,
        Direction::Read => kind | FLAG_C,
    }
}

/// Stolen time as it is written: nanoseconds, or grains of 4096 ns with the lowest bit set, which is shorter.
fn stolen(ns: i32) -> u64 {
    if ns % STOLEN_GRAIN_NS == 0 {
        (zigzag(i64::from(ns / STOLEN_GRAIN_NS)) << 1) | 1
    } else {
        zigzag(i64::from(ns)) << 1
    }
}

fn since(time_ns: u64, earlier_ns: u64) -> u64 {
    zigzag(time_ns.wrapping_sub(earlier_ns) as i64)
}

fn put_comm(out: &mut Vec<u8>, comm: &Comm) {
    let name = comm.as_bytes();
    out.push(name.len() as u8);
    out.extend(name);
}

/// The longest prefix of at most `max` bytes that ends at a character boundary.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
