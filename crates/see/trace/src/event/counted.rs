//! Which events count: those that happened, as opposed to what a recorder adds to explain them.

use crate::event::Event;

impl Event {
    /// Whether the event counts in the number of a trace's events. Restated names, losses, and what explains
    /// a wait (a spent quota, an idle state, a narrower set of CPUs) do not.
    #[inline]
    #[must_use]
    pub const fn is_counted(&self) -> bool {
        match self {
            Event::Task(_)
            | Event::Lost(_)
            | Event::Throttled(_)
            | Event::IdleState(_)
            | Event::Affinity(_) => false,
            Event::Switch(_)
            | Event::Waking(_)
            | Event::Wakeup(_)
            | Event::Fork(_)
            | Event::Exec(_)
            | Event::Exit(_)
            | Event::Comm(_)
            | Event::Prio(_)
            | Event::Migrate(_)
            | Event::Tick(_)
            | Event::TimerExpire(_)
            | Event::IrqEnter(_)
            | Event::IrqExit(_)
            | Event::SoftirqEnter(_)
            | Event::SoftirqExit(_)
            | Event::NeedResched(_)
            | Event::ScheduleEnter
            | Event::ScheduleExit
            | Event::Ipc(_)
            | Event::Mark(_)
            | Event::Stack(_)
            | Event::Stat(_) => true,
        }
    }
}
