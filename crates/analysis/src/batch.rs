//! Intervals put by until there are many, then told task by task.
//!
//! Work on one task after another in one go waits for memory far less than the same work spread over the events:
//! of a thousand busy tasks none finds its figures in the nearest caches when its next event comes.

use spry_timeline::{Ran, TaskIndex, WaitCause, Waited};

/// A stay on a CPU, as a batch keeps it; see [`Ran`].
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// From, ns of the trace's clock.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// See [`Ran::stolen_ns`].
    pub stolen_ns: i64,
    /// Whose.
    pub task: TaskIndex,
    /// Where.
    pub cpu: u16,
    /// Whether it was seen from its start to its end.
    pub whole: Whole,
}

/// A wait for a CPU, as a batch keeps it; see [`Waited`].
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// From being runnable to the CPU, ns.
    pub wait_ns: u64,
    /// From waking to being runnable, ns; means something after a wake-up only.
    pub enqueue_ns: u64,
    /// Whose.
    pub task: TaskIndex,
    /// What it came after.
    pub after: After,
    /// Whether it was seen from its start to its end.
    pub whole: Whole,
}

/// Whether an interval was seen from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the words say it")]
pub enum Whole {
    Yes,
    No,
}

/// What a wait came after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// A wake-up.
    Wakeup,
    /// The task's creation.
    Birth,
    /// Losing the CPU while runnable.
    Preemption,
    /// Not known.
    Unknown,
}

impl Run {
    /// Wall time, ns.
    #[inline]
    pub const fn wall_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl From<&Ran> for Run {
    #[inline]
    fn from(ran: &Ran) -> Run {
        let Ran { task, cpu, start_ns, end_ns, stolen_ns, .. } = *ran;
        let whole = if ran.cut.is_whole() { Whole::Yes } else { Whole::No };
        Run { start_ns, end_ns, stolen_ns, task, cpu, whole }
    }
}

impl From<&Waited> for Wait {
    #[inline]
    fn from(waited: &Waited) -> Wait {
        Wait {
            wait_ns: waited.end_ns - waited.start_ns,
            enqueue_ns: waited.start_ns.saturating_sub(waited.waking_ns),
            task: waited.task,
            after: waited.cause.into(),
            whole: if waited.cut.is_whole() { Whole::Yes } else { Whole::No },
        }
    }
}

impl From<WaitCause> for After {
    #[inline]
    fn from(cause: WaitCause) -> After {
        match cause {
            WaitCause::Woken { .. } => After::Wakeup,
            WaitCause::New => After::Birth,
            WaitCause::Preempted { .. } => After::Preemption,
            WaitCause::Unknown => After::Unknown,
        }
    }
}

/// Something that belongs to one of many, by its position among them.
pub(crate) trait Keyed: Copy {
    fn key(&self) -> usize;
}

impl Keyed for Run {
    #[inline]
    fn key(&self) -> usize {
        self.task.at()
    }
}

impl Keyed for Wait {
    #[inline]
    fn key(&self) -> usize {
        self.task.at()
    }
}

/// Items of a batch: some dozens for each of a thousand busy tasks. They are counted in 16 bits.
const BATCH: usize = 1 << 15;
/// So few owners keep their figures in the nearest caches: no need to group.
const FEW: usize = 24;

/// Items put by until there are many.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    list: Vec<T>,
    grouped: Vec<T>,
}

/// Whether a batch takes more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    Room,
    Full,
}

impl<T: Keyed> Batch<T> {
    pub(crate) fn new() -> Batch<T> {
        Batch { list: Vec::new(), grouped: Vec::new() }
    }

    /// Puts an item by. Whether it is time to take all out.
    #[inline]
    #[must_use]
    pub(crate) fn put(&mut self, item: T) -> Fill {
        self.list.push(item);
        if self.list.len() >= BATCH { Fill::Full } else { Fill::Room }
    }

    /// Empties the batch: gives the items with those of one owner together, in their order, if the owners are many.
    pub(crate) fn take(&mut self, grouper: &mut Grouper) -> &[T] {
        let len = self.list.len();
        if grouper.count(&self.list) == Owners::Many {
            if self.grouped.len() < len {
                self.grouped.extend_from_slice(&self.list[self.grouped.len()..]);
            }
            grouper.place(&self.list, &mut self.grouped);
        } else {
            std::mem::swap(&mut self.list, &mut self.grouped);
        }
        grouper.clear();
        self.list.clear();
        &self.grouped[..len]
    }
}

/// Brings items of one owner together: a counting sort that looks at the owners in the batch only.
#[derive(Debug, Default)]
pub(crate) struct Grouper {
    /// By owner: how many items, then where the next one goes.
    places: Vec<u16>,
    /// Owners, in the order of their first items.
    owners: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owners {
    Few,
    Many,
}

impl Grouper {
    fn count<T: Keyed>(&mut self, list: &[T]) -> Owners {
        for item in list {
            let key = item.key();
            if key >= self.places.len() {
                self.places.reserve_exact(key + 1 - self.places.len() + key / 16 + 64);
                self.places.resize(self.places.capacity(), 0);
            }
            let count = &mut self.places[key];
            if *count == 0 {
                self.owners.push(key as u32);
            }
            *count += 1;
        }
        if self.owners.len() <= FEW { Owners::Few } else { Owners::Many }
    }

    fn place<T: Keyed>(&mut self, list: &[T], grouped: &mut [T]) {
        let mut next = 0;
        for &owner in &self.owners {
            let count = std::mem::replace(&mut self.places[owner as usize], next);
            next += count;
        }
        for item in list {
            let place = &mut self.places[item.key()];
            grouped[usize::from(*place)] = *item;
            *place += 1;
        }
    }

    fn clear(&mut self) {
        for owner in self.owners.drain(..) {
            self.places[owner as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for (usize, u32) {
        fn key(&self) -> usize {
            self.0
        }
    }

    fn taken(items: &[(usize, u32)], grouper: &mut Grouper) -> Vec<(usize, u32)> {
        let mut batch = Batch::new();
        items.iter().for_each(|&item| _ = batch.put(item));
        batch.take(grouper).to_vec()
    }

    #[test]
    fn items_of_many_owners_come_together_in_their_order() {
        let mut grouper = Grouper::default();
        for owners in [FEW + 1, 1_000] {
            let items: Vec<(usize, u32)> = (0..5_000).map(|at| (at * 7 % owners, at as u32)).collect();
            let mut found = taken(&items, &mut grouper);
            let changes = found.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
            assert_eq!(changes + 1, owners);
            assert!(found.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 < pair[1].1));
            found.sort_unstable_by_key(|item| item.1);
            assert_eq!(found, items);
            assert_eq!(taken(&items[..1], &mut grouper), &items[..1], "nothing stays behind");
        }
    }

    #[test]
    fn items_of_few_owners_stay_in_order() {
        let items: Vec<(usize, u32)> = (0..500).map(|at| (at % FEW, at as u32)).collect();
        assert_eq!(taken(&items, &mut Grouper::default()), items);
    }
}
