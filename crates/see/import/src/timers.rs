//! Pairs the start of each high-resolution timer with its expiry, and determines the timer's kind.

use std::collections::{HashMap, VecDeque};

use spry_trace::Tid;
use spry_trace::event::{Event, Tick, TimerExpire, TimerKind};

/// The largest number of armed timers that are stored; with more, all are dropped and collected anew.
const ARMED_MAX: usize = 1 << 18;

/// A timer's clock counts as the records' clock if its reading at the expiry is behind the record's time by
/// less than this, ns.
const SAME_CLOCK_NS: u64 = 10_000_000;

/// The largest number of stored distances of clocks from the records' clock.
const CLOCKS_MAX: usize = 16;

/// The purpose of a timer's handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    Tick,
    Timer(TimerKind),
}

/// The kernel's handlers that show the purpose of a timer.
const HANDLERS: [(&str, Handler); 7] = [
    ("hrtimer_wakeup", Handler::Timer(TimerKind::Sleep)),
    ("timerfd_tmrproc", Handler::Timer(TimerKind::Timerfd)),
    ("timerfd_alarmproc", Handler::Timer(TimerKind::Timerfd)),
    ("posix_timer_fn", Handler::Timer(TimerKind::Posix)),
    ("it_real_fn", Handler::Timer(TimerKind::Itimer)),
    ("tick_sched_timer", Handler::Tick),
    ("tick_nohz_handler", Handler::Tick),
];

/// An armed timer. The times of its expiry are those of the timer's own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArmedTimer {
    pub(crate) by: Tid,
    /// The time of the record.
    pub(crate) at_ns: u64,
    /// The address of the timer's handler.
    pub(crate) function: u64,
    pub(crate) soft_expires_ns: u64,
    pub(crate) expires_ns: u64,
}

/// A clock other than that of the records: its lead over the records' clock, ns, and the time of the first
/// record with this distance.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ahead_ns: i128,
    since_ns: u64,
}

/// The timers that are armed, by their addresses. The file chooses the addresses, so their hash must be
/// unpredictable.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    handlers: HashMap<u64, Handler>,
    armed: HashMap<u64, ArmedTimer>,
    clocks: VecDeque<Clock>,
}

impl Timers {
    /// Takes the text of the kernel's `kallsyms`, which has the kernel's functions by address; empty where
    /// the file lacks it.
    pub(crate) fn new(kallsyms: &[u8]) -> Timers {
        let mut handlers = HashMap::new();
        for line in kallsyms.split(|&byte| byte == b'\n') {
            let mut words = line.split(|&byte| byte == b' ' || byte == b'\t');
            let (Some(address), Some(name)) = (words.next(), words.nth(1)) else { continue };
            let Some(&(_, handler)) = HANDLERS.iter().find(|(known, _)| known.as_bytes() == name) else {
                continue;
            };
            let address = std::str::from_utf8(address).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
            // The kernel shows 0 to a user without the right to see addresses.
            if let Some(address) = address.filter(|&address| address != 0) {
                handlers.insert(address, handler);
            }
        }
        Timers { handlers, ..Timers::default() }
    }

    /// Notes that a task armed a timer.
    pub(crate) fn start(&mut self, timer: u64, armed: ArmedTimer) {
        if self.armed.len() >= ARMED_MAX {
            self.armed.clear();
        }
        self.armed.insert(timer, armed);
    }

    /// The event of a timer's expiry: its handler was entered at `time_ns`, when the last reading of the
    /// timer's own clock was `now_ns`. `None` if the deadline on the trace's clock is unknown: the timer was
    /// armed before the recording, it was to expire at once, or a jump of its clock passed the deadline.
    pub(crate) fn expire(&mut self, timer: u64, now_ns: u64, time_ns: u64) -> Option<Event> {
        let armed = self.armed.remove(&timer)?;
        let is_same_clock = time_ns.checked_sub(now_ns).is_some_and(|behind_ns| behind_ns < SAME_CLOCK_NS);
        // If the timer's clock is not the trace's, only the timer's lateness at the last reading of its own
        // clock is known.
        let in_trace_ns = |deadline_ns: u64| {
            let late_ns = i128::from(now_ns) - i128::from(deadline_ns);
            let there_ns = if is_same_clock { now_ns } else { time_ns };
            let in_trace_ns = i128::from(there_ns) - late_ns;
            (in_trace_ns > i128::from(TimerExpire::AT_ONCE_NS))
                .then(|| u64::try_from(in_trace_ns).unwrap_or(u64::MAX))
        };
        let (deadline_ns, latest_ns) = (in_trace_ns(armed.soft_expires_ns)?, in_trace_ns(armed.expires_ns)?);
        if !is_same_clock {
            let since_ns = self.distance_since_ns(now_ns, time_ns);
            if armed.at_ns < since_ns && deadline_ns.saturating_add(SAME_CLOCK_NS) < since_ns {
                return None;
            }
        }
        let handler = self.handlers.get(&armed.function);
        Some(match handler.copied().unwrap_or(Handler::Timer(TimerKind::Other)) {
            Handler::Tick => Event::Tick(Tick { due_ns: deadline_ns }),
            Handler::Timer(kind) => {
                let tid = if kind == TimerKind::Sleep { armed.by } else { Tid::IDLE };
                Event::TimerExpire(TimerExpire { tid, kind, deadline_ns, latest_ns })
            }
        })
    }

    /// The time of the first record since which a clock has had this distance from the records' clock. A
    /// clock that was set, or that counted while the machine was suspended, has another distance than before.
    fn distance_since_ns(&mut self, now_ns: u64, time_ns: u64) -> u64 {
        let ahead_ns = i128::from(now_ns) - i128::from(time_ns);
        let is_known =
            |clock: &&mut Clock| (clock.ahead_ns - ahead_ns).unsigned_abs() < u128::from(SAME_CLOCK_NS);
        if let Some(clock) = self.clocks.iter_mut().find(is_known) {
            // Clocks drift apart.
            clock.ahead_ns = ahead_ns;
            return clock.since_ns;
        }
        if self.clocks.len() >= CLOCKS_MAX {
            self.clocks.pop_front();
        }
        self.clocks.push_back(Clock { ahead_ns, since_ns: time_ns });
        time_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"ffffffff81000010 t hrtimer_wakeup\nffffffff81000020 T tick_nohz_handler\n\
        0000000000000000 t it_real_fn\nffffffff81000030 t other\t[module]\n";

    fn armed(function: u64, soft_expires_ns: u64, expires_ns: u64) -> ArmedTimer {
        ArmedTimer { by: Tid(9), at_ns: 1_000, function, soft_expires_ns, expires_ns }
    }

    #[test]
    fn a_sleep_on_the_traces_own_clock_keeps_its_deadline() {
        let mut timers = Timers::new(KALLSYMS);
        timers.start(1, armed(0xffff_ffff_8100_0010, 5_000, 55_000));
        let expired =
            TimerExpire { tid: Tid(9), kind: TimerKind::Sleep, deadline_ns: 5_000, latest_ns: 55_000 };
        assert_eq!(timers.expire(1, 6_000, 7_000), Some(Event::TimerExpire(expired)));
        assert_eq!(timers.expire(1, 6_000, 7_000), None, "it is armed no more");
    }

    #[test]
    fn a_deadline_on_another_clock_is_as_long_ago_as_it_was_there() {
        let mut timers = Timers::new(KALLSYMS);
        let real_ns = 1_800_000_000_000_000_000;
        timers.start(1, armed(0xffff_ffff_8100_0030, real_ns, real_ns));
        let expired =
            TimerExpire { tid: Tid::IDLE, kind: TimerKind::Other, deadline_ns: 6_700, latest_ns: 6_700 };
        assert_eq!(timers.expire(1, real_ns + 300, 7_000), Some(Event::TimerExpire(expired)));
    }

    #[test]
    fn a_timer_that_is_to_expire_at_once_is_not_late() {
        let mut timers = Timers::new(KALLSYMS);
        for own_ns in [7_000_000_000, 1_800_000_000_000_000_000] {
            timers.start(1, armed(0, 1, 1));
            assert_eq!(timers.expire(1, own_ns, 7_000_000_300), None);
            timers.start(1, armed(0, own_ns - 50, own_ns - 50));
            assert!(timers.expire(1, own_ns, 7_000_000_300).is_some());
        }
    }

    #[test]
    fn a_clock_that_jumps_makes_no_timer_late() {
        const S: u64 = 1_000_000_000;
        let mut timers = Timers::new(KALLSYMS);
        let late_ns = |event: Option<Event>, time_ns: u64| match event {
            Some(Event::TimerExpire(timer)) => Some(time_ns - timer.deadline_ns),
            _ => None,
        };
        // The boot clock is 1 s ahead of the records' clock, and 1001 s ahead after a suspend at 5 s.
        for (timer, deadline_ns) in [(1, 3 * S), (2, 9 * S), (3, 10 * S), (4, 1008 * S)] {
            timers.start(timer, armed(0, deadline_ns, deadline_ns));
        }
        assert_eq!(late_ns(timers.expire(1, 3 * S + 40, 2 * S + 50), 2 * S + 50), Some(40));
        for timer in [2, 3] {
            assert_eq!(timers.expire(timer, 1006 * S, 5 * S + 1), None, "its clock jumped past its deadline");
        }
        assert_eq!(late_ns(timers.expire(4, 1008 * S + 70, 7 * S + 90), 7 * S + 90), Some(70));
        // A program that arms a timer too late makes the timer late.
        timers.start(5, ArmedTimer { at_ns: 8 * S, ..armed(0, 1004 * S, 1004 * S) });
        assert_eq!(late_ns(timers.expire(5, 1009 * S, 8 * S + 9), 8 * S + 9), Some(5 * S));
    }

    #[test]
    fn addresses_that_would_collide_cost_no_more() {
        // The inverse of the multiplier of the compiler's hash. With that hash, all these timers are in one
        // bucket, and starting them takes minutes.
        let inverse = 0x7814_94a5_5daa_ed0d_u64;
        let mut timers = Timers::new(b"");
        for number in 0..ARMED_MAX as u64 {
            timers.start(number.wrapping_mul(inverse), armed(0, 5_000, 55_000));
        }
        assert_eq!(timers.armed.len(), ARMED_MAX);
    }

    #[test]
    fn the_tick_is_told_as_such() {
        let mut timers = Timers::new(KALLSYMS);
        timers.start(1, armed(0xffff_ffff_8100_0020, 4_000, 4_000));
        assert_eq!(timers.expire(1, 4_100, 4_200), Some(Event::Tick(Tick { due_ns: 4_000 })));
    }
}
