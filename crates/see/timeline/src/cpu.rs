//! The state of one CPU: the task that has it, its recent stays, and the interrupts being handled.

use crate::interval::{InterruptKind, Interrupted};
use crate::task::TaskIndex;

/// The holder of a CPU: a task, the idle task, or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Holder {
    /// The holder is not known: before the CPU's first switch, after lost events or after a contradiction.
    #[default]
    Unknown,
    Idle,
    Task(TaskIndex),
}

impl Holder {
    /// The task; `None` if the CPU is idle or its holder is unknown.
    pub const fn task(self) -> Option<TaskIndex> {
        match self {
            Holder::Task(task) => Some(task),
            Holder::Unknown | Holder::Idle => None,
        }
    }
}

/// A stay on a CPU that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slice {
    /// The start, ns of the trace's clock.
    pub start_ns: u64,
    /// The end, ns of the trace's clock.
    pub end_ns: u64,
    /// The holder of the CPU during the stay.
    pub holder: Holder,
}

/// The number of latest slices kept for each CPU.
const RECENT: usize = 256;
/// The depth to which interrupts inside interrupts are followed; no machine nests them deeper.
const NESTING_MAX: usize = 8;

/// The known state of a CPU at the latest event.
#[derive(Clone, Debug)]
pub struct TimelineCpu {
    /// The present holder of the CPU.
    pub(crate) holder: Holder,
    /// The start of the holder's stay, ns. If the holder is unknown: start of the time in which no event of
    /// the CPU is missing.
    pub(crate) since_ns: u64,
    /// The time of the CPU's latest seen switch, ns, if the switch's next task has appeared elsewhere since.
    pub(crate) taken_ns: Option<u64>,
    /// The previous holder, which lost the CPU to the present holder.
    pub(crate) left: Holder,
    /// Whether the holder may have had the CPU even before `since_ns`.
    pub(crate) start_cut: bool,
    /// The time of the CPU's latest event, ns.
    pub(crate) last_event_ns: u64,
    /// The time at which lost events were last found, ns; 0 if never.
    pub(crate) lost_at_ns: u64,
    /// The number of lost events of the CPU.
    pub(crate) lost: u64,
    /// The latest slices, as a ring; `pushed` counts all slices that ever went in.
    recent: Option<Box<[Slice; RECENT]>>,
    pushed: usize,
    /// The times of the ticks since the last switch, ns: the next switch shows which task they hit.
    pub(crate) ticks_ns: Vec<u64>,
    nesting: [Open; NESTING_MAX],
    depth: usize,
}

/// An interrupt being handled.
#[derive(Clone, Copy, Debug)]
struct Open {
    kind: InterruptKind,
    start_ns: u64,
    inner_ns: u64,
}

impl TimelineCpu {
    pub(crate) fn new(start_ns: u64) -> TimelineCpu {
        let open =
            Open { kind: InterruptKind::Softirq(spry_trace::event::Softirq(0)), start_ns: 0, inner_ns: 0 };
        TimelineCpu {
            holder: Holder::Unknown,
            since_ns: start_ns,
            taken_ns: None,
            left: Holder::Unknown,
            start_cut: true,
            last_event_ns: start_ns,
            lost_at_ns: 0,
            lost: 0,
            recent: None,
            pushed: 0,
            ticks_ns: Vec::new(),
            nesting: [open; NESTING_MAX],
            depth: 0,
        }
    }

    /// The present holder of the CPU.
    pub const fn holder(&self) -> Holder {
        self.holder
    }

    /// The start of the holder's stay, ns; meaningless where the holder is unknown.
    pub const fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// The number of events of the CPU that were lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// One of the latest 256 stays: `back` is 0 for the newest stay, 1 for the stay before it.
    #[inline]
    pub fn recent(&self, back: usize) -> Option<&Slice> {
        let ring = self.recent.as_ref().filter(|_| back < self.pushed.min(RECENT))?;
        Some(&ring[(self.pushed - 1 - back) % RECENT])
    }

    #[inline]
    pub(crate) fn remember(&mut self, slice: Slice) {
        let ring = self.recent.get_or_insert_with(|| Box::new([Slice::default(); RECENT]));
        ring[self.pushed % RECENT] = slice;
        self.pushed += 1;
    }

    /// Forgets the holder, since events were lost; `since_ns` is the end of the loss.
    pub(crate) fn forget(&mut self, since_ns: u64) {
        self.holder = Holder::Unknown;
        self.left = Holder::Unknown;
        self.since_ns = since_ns;
        self.taken_ns = None;
        self.start_cut = true;
    }

    /// The start of the span in which the CPU's next switch counts stolen time, ns: the latest seen switch.
    pub(crate) fn counted_since_ns(&self) -> u64 {
        self.taken_ns.unwrap_or(self.since_ns)
    }

    pub(crate) fn enter(&mut self, kind: InterruptKind, time_ns: u64) {
        if self.depth == NESTING_MAX {
            self.depth = 0;
        }
        self.nesting[self.depth] = Open { kind, start_ns: time_ns, inner_ns: 0 };
        self.depth += 1;
    }

    /// The interrupt that ends here; `None` if its entry was not seen.
    pub(crate) fn leave(&mut self, cpu: u16, kind: InterruptKind, time_ns: u64) -> Option<Interrupted> {
        let open = (0..self.depth).rev().find(|&at| self.nesting[at].kind == kind)?;
        self.depth = open;
        let Open { start_ns, inner_ns, .. } = self.nesting[open];
        let whole_ns = time_ns.saturating_sub(start_ns);
        if let Some(outer) = open.checked_sub(1) {
            self.nesting[outer].inner_ns += whole_ns;
        }
        let own_ns = whole_ns.saturating_sub(inner_ns);
        Some(Interrupted { cpu, kind, start_ns, end_ns: time_ns, own_ns, holder: self.holder })
    }

    pub(crate) fn forget_interrupts(&mut self) {
        self.depth = 0;
    }
}
