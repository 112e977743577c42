//! The wakings that a timer causes.

use spry_timeline::Waking;
use spry_trace::Tid;
use spry_trace::event::{Context, TimerExpire};

/// A waking in interrupt context this long after a timer's handler began is not that timer's, ns.
const HANDLER_MAX_NS: u64 = 1_000_000;

/// A timer that a CPU handled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    /// The entry of the timer's handler, ns of the trace's clock.
    pub(crate) handler_ns: u64,
    /// The deadline of the timer, ns of the trace's clock.
    pub(crate) deadline_ns: u64,
    sleeper: Tid,
}

impl Expiry {
    pub(crate) fn of(timer: &TimerExpire, handler_ns: u64) -> Expiry {
        Expiry { handler_ns, deadline_ns: timer.deadline_ns, sleeper: timer.tid }
    }

    /// Whether the timer has caused a waking on its CPU of the task with this number. A timer that names its
    /// sleeper wakes only this sleeper.
    #[inline]
    pub(crate) fn causes(&self, waking: &Waking, woken: Tid) -> bool {
        waking.context != Context::Task
            && (self.sleeper.is_idle() || self.sleeper == woken)
            && waking.time_ns - self.handler_ns <= HANDLER_MAX_NS
    }
}
