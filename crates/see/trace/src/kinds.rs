//! Kinds of events of group `sched`, which a recorder other than Spry's may leave out one by one.

use serde::{Serialize, Serializer};

use crate::event::{Event, Wakeup, WakeupKind};

/// A kind of event of group `sched`. Spry records all kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Wakings, with the waker and the woken task.
    Waking = 0,
    /// Wake-ups of blocked tasks. They also follow from wakings.
    Wakeup = 1,
    /// Moves of tasks to other CPUs.
    Migration = 2,
    /// Clock ticks ([`Event::Tick`]).
    Tick = 3,
    /// Creation of tasks ([`Event::Fork`]).
    Birth = 4,
    /// Stolen time: the part of a stay on a CPU that the kernel did not count as run time.
    Stolen = 5,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Kind; 6] =
        [Kind::Waking, Kind::Wakeup, Kind::Migration, Kind::Tick, Kind::Birth, Kind::Stolen];

    /// The kernel's tracepoint from which events of this kind come.
    pub const fn tracepoint(self) -> &'static str {
        match self {
            Kind::Waking | Kind::Wakeup => "sched_waking",
            Kind::Migration => "sched_migrate_task",
            Kind::Tick => "hrtimer_expire_entry",
            Kind::Birth => "task_newtask",
            Kind::Stolen => "sched_stat_runtime",
        }
    }
}

/// A set of kinds. Reports hold it as a list of tracepoints.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Kinds(u8);

impl Kinds {
    /// The set without any kind.
    pub const NONE: Kinds = Kinds(0);

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the kind is in the set.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// The kinds in order.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |&kind| self.contains(kind))
    }

    /// The kinds of `self` that `other` lacks.
    #[must_use]
    pub const fn minus(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    /// The kinds that the source has certainly recorded if the trace has this event.
    pub fn of(event: &Event) -> Kinds {
        match event {
            Event::Waking(_) => [Kind::Waking, Kind::Wakeup].into_iter().collect(),
            // The wake-up of a new task may have been derived from the task's creation.
            Event::Wakeup(Wakeup { kind: WakeupKind::Again, .. }) => Kind::Wakeup.into(),
            Event::Migrate(_) => Kind::Migration.into(),
            Event::Tick(_) => Kind::Tick.into(),
            Event::Fork(_) => Kind::Birth.into(),
            Event::Switch(switch) if switch.stolen_ns != 0 => Kind::Stolen.into(),
            Event::Switch(_)
            | Event::Wakeup(Wakeup { kind: WakeupKind::New, .. })
            | Event::Exec(_)
            | Event::Exit(_)
            | Event::Comm(_)
            | Event::Prio(_)
            | Event::IrqEnter(_)
            | Event::IrqExit(_)
            | Event::SoftirqEnter(_)
            | Event::SoftirqExit(_)
            | Event::Lost(_)
            | Event::Task(_)
            | Event::Stat(_)
            | Event::TimerExpire(_)
            | Event::Ipc(_)
            | Event::Mark(_)
            | Event::Stack(_)
            | Event::Throttled(_)
            | Event::Affinity(_)
            | Event::IdleState(_)
            | Event::NeedResched(_)
            | Event::ScheduleEnter
            | Event::ScheduleExit => Kinds::NONE,
        }
    }
}

impl From<Kind> for Kinds {
    fn from(kind: Kind) -> Kinds {
        Kinds(1 << kind as u8)
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Kinds {
        Kinds(kinds.into_iter().fold(0, |bits, kind| bits | (1 << kind as u8)))
    }
}

impl Serialize for Kinds {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut tracepoints: Vec<&str> = self.iter().map(Kind::tracepoint).collect();
        tracepoints.dedup();
        tracepoints.serialize(to)
    }
}
