//! From the words of the rings to the trace's events.

use std::ptr;

use spry_trace::event::{
    Channel, ChannelKind, Comm, Context, Direction, Event, Exec, Exit, Fork, Ipc, Irq, Mark, Migrate,
    NeedResched, Policy, PrevState, Rename, Softirq, StatState, Switch, TaskInfo, TaskStat, Tgid, Tick, Tid,
    TimerExpire, TimerKind, Urgency, Wakeup, WakeupKind, Waking,
};
use spry_wire::*;

/// The bits of a stamp that hold the time.
const TIME_BITS: u32 = u64::BITS - SPRY_STAMP_SHIFT;

/// Words of the longest hot record.
pub(crate) const HOT_WORDS: usize = SPRY_HOT_MAX as usize / 8;

/// One hot record.
#[derive(Debug, PartialEq)]
pub(crate) enum Hot {
    /// A switch, whose stolen time is still to be decided.
    Switch(RawSwitch),
    /// Records that found no room before this one.
    Lost(u64),
    /// An event that needs nothing more.
    Event(Event),
}

/// A switch as the kernel told it.
#[derive(Debug, PartialEq)]
pub(crate) struct RawSwitch {
    /// The event, with no stolen time.
    pub(crate) switch: Switch,
    pub(crate) prev_policy: Policy,
    pub(crate) next_policy: Policy,
    /// Wall time of the stay less the kernel's run time, ns.
    pub(crate) uncounted_ns: i32,
}

/// A record of the shared ring, or of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rare {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u16,
    pub(crate) what: What,
}

/// What a rare record says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// An event, after which nothing else is known.
    Event(Event),
    /// An event and what it says of its task.
    Named(TaskInfo, Event),
    /// An account, the task it is of, and how it is scheduled.
    Account(TaskInfo, TaskStat, Policy, u8),
    /// Addresses in the code.
    Stack(Box<RawStack>),
    /// A hot record that interrupted another one's writer.
    Hot([u64; HOT_WORDS]),
    /// Recording was switched on again; what happened before is not known.
    Resumed,
}

/// Where a task was, as addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawStack {
    pub(crate) tid: Tid,
    pub(crate) tgid: Tgid,
    pub(crate) kernel: Vec<u64>,
    pub(crate) user: Vec<u64>,
}

/// Turns records into events.
pub(crate) struct Decoder {
    /// A time near the records', which gives the bits that their stamps lack.
    near_ns: u64,
    /// Nanoseconds of a tick, for timers that count in ticks.
    tick_ns: u64,
    /// The flag that means at once: the lower of the two (the other came later and was put behind it).
    urgent_flag: u16,
}

impl Decoder {
    pub(crate) fn new(near_ns: u64, tick_ns: u64) -> Decoder {
        Decoder { near_ns, tick_ns, urgent_flag: u16::MAX }
    }

    /// Time and kind of a record by its first word.
    pub(crate) fn stamp(&self, word: u64) -> (u64, spry_kind) {
        let low = word >> SPRY_STAMP_SHIFT;
        let ahead = low.wrapping_sub(self.near_ns) << SPRY_STAMP_SHIFT;
        // Signed, so that times before the known one are found too.
        let time_ns = self.near_ns.wrapping_add((ahead as i64 >> SPRY_STAMP_SHIFT) as u64);
        debug_assert_eq!(time_ns << (u64::BITS - TIME_BITS), low << (u64::BITS - TIME_BITS));
        (time_ns, (word & ((1 << SPRY_STAMP_SHIFT) - 1)) as spry_kind)
    }

    /// How many words a hot record has; `None` for a kind that is none.
    pub(crate) fn hot_words(kind: spry_kind) -> Option<usize> {
        let bytes = match kind {
            SPRY_SWITCH => size_of::<spry_switch>(),
            SPRY_WAKING => size_of::<spry_waking>(),
            SPRY_WAKEUP | SPRY_WAKEUP_NEW | SPRY_MIGRATE | SPRY_NEED_RESCHED => size_of::<spry_move>(),
            SPRY_TICK | SPRY_IRQ_ENTER | SPRY_IRQ_EXIT | SPRY_SOFTIRQ_ENTER | SPRY_SOFTIRQ_EXIT
            | SPRY_SCHED_ENTER | SPRY_SCHED_EXIT | SPRY_LOST => size_of::<spry_value>(),
            SPRY_TIMER => size_of::<spry_timer_expiry>(),
            SPRY_IPC => size_of::<spry_ipc>(),
            _ => return None,
        };
        Some(bytes / 8)
    }

    /// The hot record at the start of `words`, which hold all of it.
    pub(crate) fn hot(&mut self, time_ns: u64, kind: spry_kind, words: &[u64]) -> Hot {
        match kind {
            SPRY_SWITCH => Hot::Switch(switch(&record(words))),
            SPRY_LOST => Hot::Lost(record::<spry_value>(words).value),
            SPRY_WAKING => Hot::Event(Event::Waking(waking(&record(words)))),
            SPRY_WAKEUP | SPRY_WAKEUP_NEW | SPRY_MIGRATE | SPRY_NEED_RESCHED => {
                Hot::Event(self.moved(kind, &record(words)))
            }
            SPRY_TIMER => Hot::Event(Event::TimerExpire(self.timer(time_ns, &record(words)))),
            SPRY_IPC => Hot::Event(Event::Ipc(ipc(&record(words)))),
            _ => Hot::Event(value(time_ns, kind, record::<spry_value>(words).value)),
        }
    }

    fn moved(&mut self, kind: spry_kind, raw: &spry_move) -> Event {
        let tid = Tid(raw.tid);
        match kind {
            SPRY_MIGRATE => Event::Migrate(Migrate { tid, from_cpu: raw.extra, to_cpu: raw.cpu }),
            SPRY_NEED_RESCHED => {
                self.urgent_flag = self.urgent_flag.min(raw.extra);
                let urgency = if raw.extra == self.urgent_flag { Urgency::Now } else { Urgency::Lazy };
                Event::NeedResched(NeedResched { tid, target_cpu: raw.cpu, urgency })
            }
            _ => {
                let kind = if kind == SPRY_WAKEUP_NEW { WakeupKind::New } else { WakeupKind::Again };
                Event::Wakeup(Wakeup { tid, target_cpu: raw.cpu, kind })
            }
        }
    }

    fn timer(&self, time_ns: u64, raw: &spry_timer_expiry) -> TimerExpire {
        let tid = Tid(raw.tid_kind as u32);
        let kind = match (raw.tid_kind >> SPRY_TIMER_SHIFT) as spry_timer {
            SPRY_TIMER_SLEEP => TimerKind::Sleep,
            SPRY_TIMER_TIMERFD => TimerKind::Timerfd,
            SPRY_TIMER_POSIX => TimerKind::Posix,
            SPRY_TIMER_ITIMER => TimerKind::Itimer,
            SPRY_TIMER_WHEEL => {
                let late_ns = raw.deadline.saturating_mul(self.tick_ns);
                let deadline_ns = time_ns.saturating_sub(late_ns);
                return TimerExpire { tid, kind: TimerKind::Wheel, deadline_ns, latest_ns: deadline_ns };
            }
            _ => TimerKind::Other,
        };
        TimerExpire { tid, kind, deadline_ns: raw.deadline, latest_ns: raw.latest }
    }

    /// A record of the shared ring; `None` for one of a kind that is none.
    pub(crate) fn rare(&self, words: &[u64]) -> Option<Rare> {
        let (time_ns, kind) = self.stamp(words[0]);
        let meta: spry_meta = record(words);
        let tid = Tid(meta.tid);
        let what = match kind {
            SPRY_FORK => {
                let raw: spry_fork = record(words);
                let (child, child_tgid) = (Tid(raw.child), Tgid(raw.child_tgid));
                let comm = Comm::new(&raw.comm);
                What::Named(
                    TaskInfo { tid: child, tgid: child_tgid, comm },
                    Event::Fork(Fork { parent: tid, child, child_tgid, comm }),
                )
            }
            SPRY_EXEC => {
                let old_tid = Tid(record::<spry_life>(words).value as u32);
                What::Event(Event::Exec(Exec { tid, old_tid }))
            }
            SPRY_EXIT => What::Event(Event::Exit(Exit { tid })),
            SPRY_RENAME => {
                let raw: spry_rename = record(words);
                let comm = Comm::new(&raw.comm);
                let info = TaskInfo { tid, tgid: Tgid(raw.tgid), comm };
                What::Named(info, Event::Comm(Rename { tid, comm }))
            }
            SPRY_STAT => account(&record(words)),
            SPRY_MARK => {
                let raw: spry_mark = record(words);
                let text = String::from_utf8_lossy(&raw.text[..raw.len.min(SPRY_MARK_BYTES) as usize]);
                What::Event(Event::Mark(Mark { tid, text: cut(text.trim_end_matches(['\n', '\0'])).into() }))
            }
            SPRY_STACK => {
                let raw: spry_stack = record(words);
                What::Stack(Box::new(RawStack {
                    tid,
                    tgid: Tgid(raw.tgid),
                    kernel: addresses(&raw.kernel, raw.kernel_bytes),
                    user: addresses(&raw.user, raw.user_bytes),
                }))
            }
            SPRY_NESTED => What::Hot(record::<spry_nested>(words).words),
            _ => return None,
        };
        Some(Rare { time_ns, cpu: meta.cpu as u16, what })
    }

    /// A record of the task iterator.
    pub(crate) fn snapshot(&self, raw: &spry_stat) -> Rare {
        Rare { time_ns: self.stamp(raw.meta.stamp).0, cpu: raw.meta.cpu as u16, what: account(raw) }
    }
}

/// Any type of `spry_wire`: plain data for which all bits are a value.
trait Wire {}
impl Wire for spry_switch {}
impl Wire for spry_waking {}
impl Wire for spry_move {}
impl Wire for spry_value {}
impl Wire for spry_timer_expiry {}
impl Wire for spry_ipc {}
impl Wire for spry_meta {}
impl Wire for spry_fork {}
impl Wire for spry_life {}
impl Wire for spry_rename {}
impl Wire for spry_stat {}
impl Wire for spry_mark {}
impl Wire for spry_stack {}
impl Wire for spry_nested {}

fn record<T: Wire>(words: &[u64]) -> T {
    assert!(size_of_val(words) >= size_of::<T>());
    // SAFETY: there are enough bytes, and any bits are a value of a wire type.
    unsafe { ptr::read_unaligned(words.as_ptr().cast()) }
}

fn switch(raw: &spry_switch) -> RawSwitch {
    let policy = |word: u32| {
        let number = ((word >> SPRY_POLICY_SHIFT) & SPRY_POLICY_MASK) as u8;
        Policy::from_number(number).unwrap_or(Policy::Other)
    };
    let is_preempted = raw.prev & SPRY_PREEMPT_BIT != 0;
    RawSwitch {
        switch: Switch {
            prev: Tid(raw.prev & SPRY_TID_MASK),
            next: Tid(raw.next & SPRY_TID_MASK),
            prev_state: prev_state(raw.state, is_preempted),
            prev_prio: raw.prev_prio,
            next_prio: raw.next_prio,
            stolen_ns: 0,
        },
        prev_policy: policy(raw.prev),
        next_policy: policy(raw.next),
        uncounted_ns: raw.uncounted_ns,
    }
}

/// The kernel's state bits (include/linux/sched.h); those that matter here have not changed since 4.14.
fn prev_state(bits: u16, is_preempted: bool) -> PrevState {
    const INTERRUPTIBLE: u16 = 0x1;
    const UNINTERRUPTIBLE: u16 = 0x2;
    const STOPPED: u16 = 0x4;
    const TRACED: u16 = 0x8;
    const EXIT_ZOMBIE: u16 = 0x20;
    const PARKED: u16 = 0x40;
    const DEAD: u16 = 0x80;
    const NOLOAD: u16 = 0x400;
    match bits {
        _ if is_preempted => PrevState::Preempted,
        0 => PrevState::Runnable,
        _ if bits & DEAD != 0 && bits & EXIT_ZOMBIE != 0 => PrevState::Zombie,
        _ if bits & DEAD != 0 => PrevState::Dead,
        _ if bits & INTERRUPTIBLE != 0 => PrevState::Sleeping,
        _ if bits & UNINTERRUPTIBLE != 0 && bits & NOLOAD != 0 => PrevState::IdleSleep,
        _ if bits & UNINTERRUPTIBLE != 0 => PrevState::DiskSleep,
        _ if bits & STOPPED != 0 => PrevState::Stopped,
        _ if bits & TRACED != 0 => PrevState::Traced,
        _ if bits & PARKED != 0 => PrevState::Parked,
        _ => PrevState::Other,
    }
}

fn waking(raw: &spry_waking) -> Waking {
    let context = match raw.waker >> SPRY_POLICY_SHIFT {
        SPRY_CONTEXT_TASK => Context::Task,
        SPRY_CONTEXT_SOFTIRQ => Context::Softirq,
        SPRY_CONTEXT_HARDIRQ => Context::Hardirq,
        _ => Context::Unknown,
    };
    Waking { waker: Tid(raw.waker & SPRY_TID_MASK), wakee: Tid(raw.wakee), context }
}

fn ipc(raw: &spry_ipc) -> Ipc {
    let kind = match raw.kind {
        SPRY_CHANNEL_PIPE => ChannelKind::Pipe,
        SPRY_CHANNEL_UNIX => ChannelKind::Unix,
        SPRY_CHANNEL_INET => ChannelKind::Inet,
        _ => ChannelKind::Tty,
    };
    let direction = if raw.is_read == 0 { Direction::Write } else { Direction::Read };
    Ipc { tid: Tid(raw.tid), direction, channel: Channel { kind, id: raw.id }, bytes: raw.bytes }
}

fn value(time_ns: u64, kind: spry_kind, value: u64) -> Event {
    match kind {
        // Where the tick is an interrupt its due time is not told.
        SPRY_TICK => Event::Tick(Tick { due_ns: if value == 0 { time_ns } else { value } }),
        SPRY_IRQ_ENTER => Event::IrqEnter(irq(value)),
        SPRY_IRQ_EXIT => Event::IrqExit(irq(value)),
        SPRY_SOFTIRQ_ENTER => Event::SoftirqEnter(Softirq(value as u8)),
        SPRY_SOFTIRQ_EXIT => Event::SoftirqExit(Softirq(value as u8)),
        SPRY_SCHED_ENTER => Event::ScheduleEnter,
        _ => Event::ScheduleExit,
    }
}

fn irq(value: u64) -> Irq {
    match value as spry_irq {
        SPRY_IRQ_LOCAL_TIMER => Irq::LocalTimer,
        SPRY_IRQ_RESCHEDULE => Irq::Reschedule,
        SPRY_IRQ_CALL_FUNCTION => Irq::CallFunction,
        SPRY_IRQ_IRQ_WORK => Irq::IrqWork,
        line => Irq::Device(line as u16),
    }
}

fn account(raw: &spry_stat) -> What {
    let tid = Tid(raw.meta.tid);
    let state = match spry_stat_state::from(raw.state) {
        SPRY_STAT_RUNNING => StatState::Running,
        SPRY_STAT_RUNNABLE => StatState::Runnable,
        SPRY_STAT_EXITED => StatState::Exited,
        _ => StatState::Blocked,
    };
    What::Account(
        TaskInfo { tid, tgid: Tgid(raw.tgid), comm: Comm::new(&raw.comm) },
        TaskStat { tid, state, exec_ns: raw.exec_ns, utime_ns: raw.utime_ns, stime_ns: raw.stime_ns },
        Policy::from_number(raw.policy).unwrap_or(Policy::Other),
        raw.prio,
    )
}

/// At most the bytes a mark may have, whole characters only.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(Mark::MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn addresses(frames: &[u64], bytes: i16) -> Vec<u64> {
    frames[..(usize::try_from(bytes).unwrap_or(0) / 8).min(frames.len())].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamps_missing_bits_come_from_a_time_near_it() {
        for near_ns in [0, 5, 1 << 55, (1 << 56) - 5, (1 << 56) + 5, (1 << 60) + 12345] {
            let decoder = Decoder::new(near_ns, 0);
            for time_ns in [near_ns, near_ns + 1_000_000_000, near_ns.saturating_sub(1_000)] {
                let word = (time_ns << SPRY_STAMP_SHIFT) | u64::from(SPRY_TICK);
                assert_eq!(decoder.stamp(word), (time_ns, SPRY_TICK));
            }
        }
    }

    #[test]
    fn states_are_told_as_the_kernel_means_them() {
        let cases = [
            (0, true, PrevState::Preempted),
            (1, true, PrevState::Preempted),
            (0, false, PrevState::Runnable),
            (0x4001, false, PrevState::Sleeping),
            (0x2, false, PrevState::DiskSleep),
            (0x102, false, PrevState::DiskSleep),
            (0x402, false, PrevState::IdleSleep),
            (0x4, false, PrevState::Stopped),
            (0x8, false, PrevState::Traced),
            (0x40, false, PrevState::Parked),
            (0x80 | 0x20, false, PrevState::Zombie),
            (0x80 | 0x10, false, PrevState::Dead),
            (0x1000, false, PrevState::Other),
        ];
        for (bits, is_preempted, state) in cases {
            assert_eq!(prev_state(bits, is_preempted), state, "{bits:#x}");
        }
    }

    #[test]
    fn the_lower_need_resched_flag_is_the_urgent_one() {
        let mut decoder = Decoder::new(0, 0);
        let mut urgency = |flag| {
            let raw = spry_move { extra: flag, ..spry_move::default() };
            match decoder.moved(SPRY_NEED_RESCHED, &raw) {
                Event::NeedResched(event) => event.urgency,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([4, 5, 4].map(&mut urgency), [Urgency::Now, Urgency::Lazy, Urgency::Now]);
    }

    #[test]
    fn a_wheel_timers_deadline_is_told_in_ticks() {
        let decoder = Decoder::new(0, 4_000_000);
        let tid_kind = (u64::from(SPRY_TIMER_WHEEL) << SPRY_TIMER_SHIFT) | 9;
        let raw = spry_timer_expiry { tid_kind, deadline: 2, ..spry_timer_expiry::default() };
        let expiry = decoder.timer(100_000_000, &raw);
        assert_eq!((expiry.tid, expiry.kind, expiry.deadline_ns), (Tid(9), TimerKind::Wheel, 92_000_000));
    }

    #[test]
    fn a_mark_is_cut_between_characters() {
        assert_eq!(cut(&"\u{20ac}".repeat(60)).len(), 126);
        assert_eq!(cut("short"), "short");
    }
}
