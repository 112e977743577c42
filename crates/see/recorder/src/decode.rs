//! Decodes the words of the rings into the trace's events.

use std::num::NonZeroU16;
use std::ptr;

use spry_trace::event::{
    Channel, ChannelKind, Comm, Context, Direction, Event, Exec, Exit, Fork, Ipc, Irq, Mark, Migrate,
    NeedResched, Numbers, Policy, PrevState, Rename, Softirq, StatState, Switch, TaskInfo, TaskStat, Tgid,
    Tick, Tid, TimerExpire, TimerKind, Urgency, Wakeup, WakeupKind, Waking,
};

use crate::wire::*;

/// The bits of a stamp that hold the time.
const TIME_BITS: u32 = u64::BITS - SPRY_STAMP_SHIFT;

/// Words of the longest hot record.
pub(crate) const HOT_WORDS: usize = SPRY_HOT_MAX as usize / 8;

/// One hot record.
#[derive(Debug, PartialEq)]
pub(crate) enum Hot {
    /// A switch. Its stolen time is still to be decided.
    Switch(RawSwitch),
    /// The number of records that found no room before this record.
    Lost(u64),
    /// A task is throttled, or may run again.
    Throttle(spry_throttle),
    /// A cgroup's limit.
    Quota(spry_quota),
    /// A wake-up, and the number of CPUs on which the task may run, if that is known.
    Wakeup(Wakeup, Option<NonZeroU16>),
    /// An event that needs nothing more.
    Event(Event),
}

/// A switch as the kernel's tracepoint gives it.
#[derive(Debug, PartialEq)]
pub(crate) struct RawSwitch {
    /// The event, with no stolen time.
    pub(crate) switch: Switch,
    pub(crate) prev_policy: Policy,
    pub(crate) next_policy: Policy,
    /// The number of CPUs on which a task that stays runnable may run, if that is known; `SPRY_ALLOWED_MANY`
    /// stands for as many or more.
    pub(crate) prev_cpus: Option<NonZeroU16>,
    /// Wall time of prev's stay on the CPU less the run time that the kernel counted for it, ns.
    pub(crate) uncounted_ns: i32,
}

/// A record of the shared ring, or of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rare {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u16,
    pub(crate) what: What,
}

/// The content of a rare record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    /// An event without a name of its task.
    Event(Event),
    /// An event with its task's process and name.
    Named(TaskInfo, Event),
    /// A task's account, with the task's name, policy and priority.
    Account(TaskInfo, TaskStat, Policy, u8),
    /// A task's stack, as addresses.
    Stack(Box<RawStack>),
    /// A hot record of a program that interrupted the writer of another record.
    Hot([u64; HOT_WORDS]),
    /// The CPU has gone offline.
    Offline,
    /// Recording was switched on again; events before this moment are missing.
    Resumed,
}

/// The call stack of a task, as addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawStack {
    pub(crate) tid: Tid,
    pub(crate) tgid: Tgid,
    pub(crate) kernel: Vec<u64>,
    pub(crate) user: Vec<u64>,
}

/// Turns records into events.
pub(crate) struct Decoder {
    /// A time near the records' times, ns, from which the high bits that their stamps lack are taken.
    near_ns: u64,
    /// Nanoseconds of a tick, for timers that count in ticks.
    tick_ns: u64,
    /// The number of the kernel's flag for rescheduling at once. It is the lower of two numbers: the lazy
    /// flag came to the kernel later and has a higher number.
    urgent_flag: u16,
}

impl Decoder {
    pub(crate) fn new(near_ns: u64, tick_ns: u64) -> Decoder {
        Decoder { near_ns, tick_ns, urgent_flag: u16::MAX }
    }

    /// The time, ns, and the kind of a record, by its first word.
    pub(crate) fn stamp(&self, word: u64) -> Result<(u64, Kind), Nonsense> {
        let kind = (word & ((1 << SPRY_STAMP_SHIFT) - 1)) as spry_kind;
        Ok((self.time_ns(word), Kind::try_from(kind)?))
    }

    fn time_ns(&self, word: u64) -> u64 {
        let low = word >> SPRY_STAMP_SHIFT;
        let ahead = low.wrapping_sub(self.near_ns) << SPRY_STAMP_SHIFT;
        // Signed, so that times before the known one are found too.
        let time_ns = self.near_ns.wrapping_add((ahead as i64 >> SPRY_STAMP_SHIFT) as u64);
        debug_assert_eq!(time_ns << (u64::BITS - TIME_BITS), low << (u64::BITS - TIME_BITS));
        time_ns
    }

    /// The hot record at the start of `words`.
    pub(crate) fn hot(&mut self, time_ns: u64, kind: HotKind, words: &[u64]) -> Result<Hot, Nonsense> {
        let value = || Ok(record::<spry_value>(words)?.value);
        Ok(Hot::Event(match kind {
            HotKind::Switch => return Ok(Hot::Switch(switch(&record(words)?))),
            HotKind::Lost => return Ok(Hot::Lost(value()?)),
            HotKind::Throttle => return Ok(Hot::Throttle(record(words)?)),
            HotKind::Quota => return Ok(Hot::Quota(record(words)?)),
            HotKind::Waking => Event::Waking(waking(&record(words)?)?),
            HotKind::Wakeup => return Ok(wakeup(WakeupKind::Again, &record(words)?)),
            HotKind::WakeupNew => return Ok(wakeup(WakeupKind::New, &record(words)?)),
            HotKind::Migrate => {
                let raw: spry_move = record(words)?;
                Event::Migrate(Migrate { tid: Tid(raw.tid), from_cpu: raw.extra, to_cpu: raw.cpu })
            }
            HotKind::NeedResched => Event::NeedResched(self.need_resched(&record(words)?)),
            HotKind::Timer => Event::TimerExpire(self.timer(time_ns, &record(words)?)?),
            HotKind::Ipc => Event::Ipc(ipc(&record(words)?)?),
            // Where the tick is an interrupt of its own, the record has no due time.
            HotKind::Tick => {
                Event::Tick(Tick { due_ns: Some(value()?).filter(|&ns| ns != 0).unwrap_or(time_ns) })
            }
            HotKind::IrqEnter => Event::IrqEnter(irq(value()?)),
            HotKind::IrqExit => Event::IrqExit(irq(value()?)),
            HotKind::SoftirqEnter => Event::SoftirqEnter(Softirq(value()? as u8)),
            HotKind::SoftirqExit => Event::SoftirqExit(Softirq(value()? as u8)),
            HotKind::SchedEnter => Event::ScheduleEnter,
            HotKind::SchedExit => Event::ScheduleExit,
            HotKind::Idle => Event::IdleState(Some(value()? as u32).filter(|&state| state != SPRY_IDLE_LEFT)),
        }))
    }

    fn need_resched(&mut self, raw: &spry_move) -> NeedResched {
        self.urgent_flag = self.urgent_flag.min(raw.extra);
        let urgency = if raw.extra == self.urgent_flag { Urgency::Now } else { Urgency::Lazy };
        NeedResched { tid: Tid(raw.tid), target_cpu: raw.cpu, urgency }
    }

    fn timer(&self, time_ns: u64, raw: &spry_timer_expiry) -> Result<TimerExpire, Nonsense> {
        let tid = Tid(raw.tid);
        let kind = match raw.kind {
            SPRY_TIMER_SLEEP => TimerKind::Sleep,
            SPRY_TIMER_TIMERFD => TimerKind::Timerfd,
            SPRY_TIMER_POSIX => TimerKind::Posix,
            SPRY_TIMER_ITIMER => TimerKind::Itimer,
            SPRY_TIMER_WHEEL => {
                let late_ns = raw.deadline.saturating_mul(self.tick_ns);
                let deadline_ns = time_ns.saturating_sub(late_ns);
                let kind = TimerKind::Wheel;
                return Ok(TimerExpire { tid, kind, deadline_ns, latest_ns: deadline_ns });
            }
            SPRY_TIMER_OTHER => TimerKind::Other,
            number => return Err(Nonsense::of("the kind of a timer", number)),
        };
        Ok(TimerExpire { tid, kind, deadline_ns: raw.deadline, latest_ns: raw.latest })
    }

    /// A record of the shared ring.
    pub(crate) fn rare(&self, words: &[u64]) -> Result<Rare, Nonsense> {
        let meta: spry_meta = record(words)?;
        let (time_ns, kind) = self.stamp(meta.stamp)?;
        let kind = match kind {
            Kind::Rare(kind) => kind,
            Kind::Hot(_) | Kind::Pad => return Err(Nonsense::of("a shared record's stamp", meta.stamp)),
        };
        let tid = Tid(meta.tid);
        let what = match kind {
            RareKind::Fork => {
                let raw: spry_fork = record(words)?;
                let (child, child_tgid) = (Tid(raw.child), Tgid(raw.child_tgid));
                let comm = Comm::new(&raw.comm);
                What::Named(
                    TaskInfo {
                        inner: inner(raw.inner, raw.inner_tgid),
                        ..TaskInfo::new(child, child_tgid, comm)
                    },
                    Event::Fork(Fork { parent: tid, child, child_tgid, comm }),
                )
            }
            RareKind::Exec => {
                let old_tid = Tid(record::<spry_life>(words)?.value as u32);
                What::Event(Event::Exec(Exec { tid, old_tid }))
            }
            RareKind::Exit => What::Event(Event::Exit(Exit { tid })),
            RareKind::Rename => {
                let raw: spry_rename = record(words)?;
                let comm = Comm::new(&raw.comm);
                let info = TaskInfo::new(tid, Tgid(raw.tgid), comm);
                What::Named(info, Event::Comm(Rename { tid, comm }))
            }
            RareKind::Stat => account(&record(words)?)?,
            RareKind::Mark => {
                let raw: spry_mark = record(words)?;
                let text = String::from_utf8_lossy(&raw.text[..raw.len.min(SPRY_MARK_BYTES) as usize]);
                What::Event(Event::Mark(Mark { tid, text: cut(text.trim_end_matches(['\n', '\0'])).into() }))
            }
            RareKind::Stack => {
                let raw: spry_stack = record(words)?;
                What::Stack(Box::new(RawStack {
                    tid,
                    tgid: Tgid(raw.tgid),
                    kernel: addresses(&raw.kernel, raw.kernel_bytes),
                    user: addresses(&raw.user, raw.user_bytes),
                }))
            }
            RareKind::Nested => What::Hot(record::<spry_nested>(words)?.words),
            RareKind::Offline => What::Offline,
        };
        Ok(Rare { time_ns, cpu: meta.cpu as u16, what })
    }

    /// A record of the task iterator.
    pub(crate) fn snapshot(&self, raw: &spry_stat) -> Result<Rare, Nonsense> {
        Ok(Rare { time_ns: self.time_ns(raw.meta.stamp), cpu: raw.meta.cpu as u16, what: account(raw)? })
    }
}

/// Any type of `wire`: plain data for which all bits are a value.
trait Wire {}
impl Wire for spry_switch {}
impl Wire for spry_waking {}
impl Wire for spry_move {}
impl Wire for spry_value {}
impl Wire for spry_timer_expiry {}
impl Wire for spry_ipc {}
impl Wire for spry_throttle {}
impl Wire for spry_quota {}
impl Wire for spry_meta {}
impl Wire for spry_fork {}
impl Wire for spry_life {}
impl Wire for spry_rename {}
impl Wire for spry_stat {}
impl Wire for spry_mark {}
impl Wire for spry_stack {}
impl Wire for spry_nested {}

fn record<T: Wire>(words: &[u64]) -> Result<T, Nonsense> {
    if size_of_val(words) < size_of::<T>() {
        return Err(Nonsense::of("a record's length in words", words.len() as u64));
    }
    // SAFETY: there are enough bytes, and any bits are a value of a wire type.
    Ok(unsafe { ptr::read_unaligned(words.as_ptr().cast()) })
}

/// The scheduling policy of a number. An unknown number counts as the ordinary policy.
fn policy(number: u32) -> Policy {
    Policy::from_number(number as u8).unwrap_or(Policy::Other)
}

fn switch(raw: &spry_switch) -> RawSwitch {
    RawSwitch {
        switch: Switch {
            prev: Tid(raw.prev_tid()),
            next: Tid(raw.next_tid()),
            prev_state: prev_state(raw.state, raw.is_preempted() != 0),
            prev_prio: raw.prev_prio,
            next_prio: raw.next_prio,
            stolen_ns: 0,
        },
        prev_policy: policy(raw.prev_policy()),
        next_policy: policy(raw.next_policy()),
        prev_cpus: NonZeroU16::new(raw.prev_allowed() as u16),
        uncounted_ns: raw.uncounted_ns,
    }
}

/// The kernel's state bits (include/linux/sched.h); the bits used here have not changed since 4.14.
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

fn wakeup(kind: WakeupKind, raw: &spry_move) -> Hot {
    Hot::Wakeup(Wakeup { tid: Tid(raw.tid), target_cpu: raw.cpu, kind }, NonZeroU16::new(raw.extra))
}

fn waking(raw: &spry_waking) -> Result<Waking, Nonsense> {
    let context = match raw.context() {
        SPRY_CONTEXT_TASK => Context::Task,
        SPRY_CONTEXT_SOFTIRQ => Context::Softirq,
        SPRY_CONTEXT_HARDIRQ => Context::Hardirq,
        SPRY_CONTEXT_UNKNOWN => Context::Unknown,
        number => return Err(Nonsense::of("a waker's context", number)),
    };
    Ok(Waking { waker: Tid(raw.waker()), wakee: Tid(raw.wakee), context })
}

fn ipc(raw: &spry_ipc) -> Result<Ipc, Nonsense> {
    let kind = match raw.kind {
        SPRY_CHANNEL_PIPE => ChannelKind::Pipe,
        SPRY_CHANNEL_UNIX => ChannelKind::Unix,
        SPRY_CHANNEL_INET => ChannelKind::Inet,
        SPRY_CHANNEL_TTY => ChannelKind::Tty,
        number => return Err(Nonsense::of("the kind of a channel", number)),
    };
    let direction = match raw.is_read {
        0 => Direction::Write,
        1 => Direction::Read,
        number => return Err(Nonsense::of("a channel's direction", number)),
    };
    Ok(Ipc { tid: Tid(raw.tid), direction, channel: Channel { kind, id: raw.id }, bytes: raw.bytes })
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

/// A task's numbers in the recorder's PID namespace, where 0 stands for none.
fn inner(tid: u32, tgid: u32) -> Option<Numbers> {
    (tid != 0).then_some(Numbers { tid: Tid(tid), tgid: Tgid(tgid) })
}

fn account(raw: &spry_stat) -> Result<What, Nonsense> {
    let tid = Tid(raw.meta.tid);
    let state = match spry_stat_state::from(raw.state) {
        SPRY_STAT_RUNNING => StatState::Running,
        SPRY_STAT_RUNNABLE => StatState::Runnable,
        SPRY_STAT_EXITED => StatState::Exited,
        SPRY_STAT_BLOCKED => StatState::Blocked,
        number => return Err(Nonsense::of("a task's state", number)),
    };
    Ok(What::Account(
        TaskInfo {
            inner: inner(raw.inner, raw.inner_tgid),
            ..TaskInfo::new(tid, Tgid(raw.tgid), Comm::new(&raw.comm))
        },
        TaskStat { tid, state, exec_ns: raw.exec_ns, utime_ns: raw.utime_ns, stime_ns: raw.stime_ns },
        policy(raw.policy.into()),
        raw.prio,
    ))
}

/// Cuts a mark's text to the bytes that a mark may have, between whole characters.
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
                assert_eq!(decoder.stamp(word), Ok((time_ns, Kind::Hot(HotKind::Tick))));
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
            decoder.need_resched(&raw).urgency
        };
        assert_eq!([4, 5, 4].map(&mut urgency), [Urgency::Now, Urgency::Lazy, Urgency::Now]);
    }

    #[test]
    fn a_wheel_timers_deadline_is_told_in_ticks() {
        let decoder = Decoder::new(0, 4_000_000);
        let kind = SPRY_TIMER_WHEEL;
        let raw = spry_timer_expiry { tid: 9, kind, deadline: 2, ..spry_timer_expiry::default() };
        let expiry = decoder.timer(100_000_000, &raw).unwrap();
        assert_eq!((expiry.tid, expiry.kind, expiry.deadline_ns), (Tid(9), TimerKind::Wheel, 92_000_000));
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        let mut decoder = Decoder::new(0, 0);
        let words = [0, 0, 0, 77 << 32];
        assert_eq!(
            decoder.hot(0, HotKind::Ipc, &[0, 0, 0, 77]),
            Err(Nonsense::of("the kind of a channel", 77_u32))
        );
        assert_eq!(
            decoder.hot(0, HotKind::Timer, &[0, 77 << 32, 0, 0]),
            Err(Nonsense::of("the kind of a timer", 77_u32))
        );
        assert_eq!(
            decoder.hot(0, HotKind::Switch, &words[..2]),
            Err(Nonsense::of("a record's length in words", 2_u64))
        );
        let hot = u64::from(SPRY_TICK);
        assert_eq!(decoder.rare(&[hot, 0]), Err(Nonsense::of("a shared record's stamp", hot)));
    }

    #[test]
    fn a_mark_is_cut_between_characters() {
        assert_eq!(cut(&"\u{20ac}".repeat(60)).len(), 126);
        assert_eq!(cut("short"), "short");
    }
}
