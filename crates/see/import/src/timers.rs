//! Pairs the start of each high-resolution timer with its expiry, and says what kind of timer it was.

use std::collections::HashMap;

use spry_trace::Tid;
use spry_trace::event::{Event, Tick, TimerExpire, TimerKind};

/// How many armed timers are remembered; when there are more, all are forgotten and learnt anew.
const ARMED_MAX: usize = 1 << 18;

/// A timer's clock counts as the same as the records' clock if its reading when the timer expired is less
/// than this much behind the record's time, ns.
const SAME_CLOCK_NS: u64 = 10_000_000;

/// What a timer's handler does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handler {
    Tick,
    Timer(TimerKind),
}

/// The kernel's functions that tell what a timer is for.
const HANDLERS: [(&str, Handler); 7] = [
    ("hrtimer_wakeup", Handler::Timer(TimerKind::Sleep)),
    ("timerfd_tmrproc", Handler::Timer(TimerKind::Timerfd)),
    ("timerfd_alarmproc", Handler::Timer(TimerKind::Timerfd)),
    ("posix_timer_fn", Handler::Timer(TimerKind::Posix)),
    ("it_real_fn", Handler::Timer(TimerKind::Itimer)),
    ("tick_sched_timer", Handler::Tick),
    ("tick_nohz_handler", Handler::Tick),
];

#[derive(Clone, Copy, Debug)]
struct Armed {
    by: Tid,
    handler: Handler,
    soft_expires_ns: u64,
    expires_ns: u64,
}

/// The timers that are armed, by their addresses. The file chooses the addresses, so the hash must be one
/// a file cannot foresee.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    handlers: HashMap<u64, Handler>,
    armed: HashMap<u64, Armed>,
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
            // A user that may not see addresses sees 0.
            if let Some(address) = address.filter(|&address| address != 0) {
                handlers.insert(address, handler);
            }
        }
        Timers { handlers, armed: HashMap::new() }
    }

    /// Notes that a task armed a timer, to expire between two times of the timer's own clock.
    pub(crate) fn start(
        &mut self,
        timer: u64,
        function: u64,
        by: Tid,
        soft_expires_ns: u64,
        expires_ns: u64,
    ) {
        if self.armed.len() >= ARMED_MAX {
            self.armed.clear();
        }
        let handler = self.handlers.get(&function).copied().unwrap_or(Handler::Timer(TimerKind::Other));
        self.armed.insert(timer, Armed { by, handler, soft_expires_ns, expires_ns });
    }

    /// The event of a timer's expiry: its handler was entered at `time_ns`, when the last reading of the
    /// timer's own clock was `now_ns`. `None` for a timer that was armed before the recording: its deadline
    /// is not known.
    pub(crate) fn expire(&mut self, timer: u64, now_ns: u64, time_ns: u64) -> Option<Event> {
        let armed = self.armed.remove(&timer)?;
        let is_same_clock = time_ns.checked_sub(now_ns).is_some_and(|behind_ns| behind_ns < SAME_CLOCK_NS);
        // If the timer's clock is not the trace's, it is only known how late the timer was when its own clock
        // was read.
        let in_trace_ns = |deadline_ns: u64| {
            let late_ns = i128::from(now_ns) - i128::from(deadline_ns);
            let there_ns = if is_same_clock { now_ns } else { time_ns };
            u64::try_from((i128::from(there_ns) - late_ns).max(0)).unwrap_or(u64::MAX)
        };
        let (deadline_ns, latest_ns) = (in_trace_ns(armed.soft_expires_ns), in_trace_ns(armed.expires_ns));
        Some(match armed.handler {
            Handler::Tick => Event::Tick(Tick { due_ns: deadline_ns }),
            Handler::Timer(kind) => {
                let tid = if kind == TimerKind::Sleep { armed.by } else { Tid::IDLE };
                Event::TimerExpire(TimerExpire { tid, kind, deadline_ns, latest_ns })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &[u8] = b"ffffffff81000010 t hrtimer_wakeup\nffffffff81000020 T tick_nohz_handler\n\
        0000000000000000 t it_real_fn\nffffffff81000030 t other\t[module]\n";

    #[test]
    fn a_sleep_on_the_traces_own_clock_keeps_its_deadline() {
        let mut timers = Timers::new(KALLSYMS);
        timers.start(1, 0xffff_ffff_8100_0010, Tid(9), 5_000, 55_000);
        let expired =
            TimerExpire { tid: Tid(9), kind: TimerKind::Sleep, deadline_ns: 5_000, latest_ns: 55_000 };
        assert_eq!(timers.expire(1, 6_000, 7_000), Some(Event::TimerExpire(expired)));
        assert_eq!(timers.expire(1, 6_000, 7_000), None, "it is armed no more");
    }

    #[test]
    fn a_deadline_on_another_clock_is_as_long_ago_as_it_was_there() {
        let mut timers = Timers::new(KALLSYMS);
        let real_ns = 1_800_000_000_000_000_000;
        timers.start(1, 0xffff_ffff_8100_0030, Tid(9), real_ns, real_ns);
        let expired =
            TimerExpire { tid: Tid::IDLE, kind: TimerKind::Other, deadline_ns: 6_700, latest_ns: 6_700 };
        assert_eq!(timers.expire(1, real_ns + 300, 7_000), Some(Event::TimerExpire(expired)));
    }

    #[test]
    fn addresses_that_would_collide_cost_no_more() {
        // The inverse of the multiplier of the compiler's hash. With that hash, all these timers are in one
        // bucket, and starting them takes minutes.
        let inverse = 0x7814_94a5_5daa_ed0d_u64;
        let mut timers = Timers::new(b"");
        for number in 0..ARMED_MAX as u64 {
            timers.start(number.wrapping_mul(inverse), 0, Tid(9), 5_000, 55_000);
        }
        assert_eq!(timers.armed.len(), ARMED_MAX);
    }

    #[test]
    fn the_tick_is_told_as_such() {
        let mut timers = Timers::new(KALLSYMS);
        timers.start(1, 0xffff_ffff_8100_0020, Tid(0), 4_000, 4_000);
        assert_eq!(timers.expire(1, 4_100, 4_200), Some(Event::Tick(Tick { due_ns: 4_000 })));
    }
}
