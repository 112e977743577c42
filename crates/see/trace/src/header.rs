//! The header of a trace: the machine, the recording and the groups of events.

use serde::{Deserialize, Serialize};

use crate::kinds::Kinds;

/// The machine and the recording, written once at the start of the file as JSON.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Kernel release (`uname -r`), or the simulated kernel's name.
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// The recorded machine: `host`, `lab` or `sim`. For information only: no analysis may depend on it.
    pub machine: String,
    /// Number of possible CPUs; events carry numbers below it.
    pub cpus: u16,
    /// Clock ticks a second, where known.
    pub hz: Option<u32>,
    /// The phase of each CPU's tick: its time modulo the tick period, ns of the trace's clock;
    /// `None` if unknown.
    pub tick_phase_ns: Vec<Option<u64>>,
    /// The preemption model in force, in the kernel's words.
    pub preemption: Option<String>,
    /// The sched_ext scheduler in force, if any.
    pub scheduler: Option<String>,
    /// The kernel's command line.
    pub boot_parameters: Option<String>,
    /// The clock of the time stamps, e.g. `monotonic`.
    pub clock: String,
    /// Clock reading when recording started, ns.
    pub start_ns: u64,
    /// Wall-clock time (UNIX epoch) at `start_ns`, ns.
    pub start_unix_ns: Option<u64>,
    /// The recorder's own process; its events are the cost of recording.
    pub recorder_tgid: Option<u32>,
    /// The recorded groups.
    pub groups: Groups,
    /// Kinds of events that the source may not have recorded. If the trace has no event of such a kind, it is
    /// unknown whether any happened. This is not in files: Spry's own traces have all kinds.
    #[serde(skip)]
    pub unproven: Kinds,
    /// The command that was recorded, if one was given.
    pub command: Option<Vec<String>>,
}

/// The time between two ticks of the machine, ns; 0 if it is not known.
pub(crate) fn tick_ns(header: &Header) -> u64 {
    header.hz.and_then(|hz| 1_000_000_000u64.checked_div(u64::from(hz))).unwrap_or(0)
}

/// A group of events that is switched on and off together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Group {
    /// Switches, wake-ups, forks, names, priorities, migrations, ticks. Always on.
    Sched = 0,
    /// Timer expiries.
    Timer = 1,
    /// Interrupts and softirqs.
    Irq = 2,
    /// Need-resched flags, entry and exit of `schedule()`.
    Resched = 3,
    /// Bytes between processes.
    Ipc = 4,
    /// Programs' own events.
    Mark = 5,
    /// Stacks at switches.
    Stack = 6,
    /// Idle states that CPUs enter and leave.
    Idle = 7,
}

impl Group {
    /// All groups, in the order of their numbers.
    pub const ALL: [Group; 8] = [
        Group::Sched,
        Group::Timer,
        Group::Irq,
        Group::Resched,
        Group::Ipc,
        Group::Mark,
        Group::Stack,
        Group::Idle,
    ];

    /// The group's name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Sched => "sched",
            Group::Timer => "timer",
            Group::Irq => "irq",
            Group::Resched => "resched",
            Group::Ipc => "ipc",
            Group::Mark => "mark",
            Group::Stack => "stack",
            Group::Idle => "idle",
        }
    }

    /// The group of that name.
    pub fn from_name(name: &str) -> Option<Group> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// A set of groups. Files hold it as a list of names; a reader skips the names of unknown groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<Group>")]
pub struct Groups(u8);

impl Groups {
    /// The set without any group.
    pub const NONE: Groups = Groups(0);

    /// This set and one more.
    #[must_use]
    pub const fn with(self, group: Group) -> Groups {
        Groups(self.0 | (1 << group as u8))
    }

    /// Whether the group is in the set.
    pub const fn contains(self, group: Group) -> bool {
        self.0 & (1 << group as u8) != 0
    }

    /// The groups in order.
    pub fn iter(self) -> impl Iterator<Item = Group> {
        Group::ALL.into_iter().filter(move |&group| self.contains(group))
    }

    /// The groups of `self` that `other` lacks.
    #[must_use]
    pub const fn minus(self, other: Groups) -> Groups {
        Groups(self.0 & !other.0)
    }
}

impl FromIterator<Group> for Groups {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Groups {
        groups.into_iter().fold(Groups::NONE, Groups::with)
    }
}

impl From<Vec<String>> for Groups {
    fn from(names: Vec<String>) -> Groups {
        names.iter().filter_map(|name| Group::from_name(name)).collect()
    }
}

impl From<Groups> for Vec<Group> {
    fn from(groups: Groups) -> Vec<Group> {
        groups.iter().collect()
    }
}
