//! Intervals are collected until there are many, and then counted task by task.
//!
//! Work on one task after another in one go waits for memory far less than the same work spread over the
//! events. If a thousand tasks are busy, a task's counts are no longer in the nearest caches when its
//! next event comes.

use spry_timeline::{Ran, TaskIndex, WaitCause, Waited};

/// A stay on a CPU, as a batch keeps it; see [`Ran`].
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The start, ns of the trace's clock.
    pub start_ns: u64,
    /// The end, ns of the trace's clock.
    pub end_ns: u64,
    /// See [`Ran::stolen_ns`].
    pub stolen_ns: i64,
    /// The task that ran.
    pub task: TaskIndex,
    pub cpu: u16,
    /// Whether the interval was seen from its start to its end.
    pub whole: Whole,
}

/// A wait for a CPU, as a batch keeps it; see [`Waited`].
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// How long the task was runnable before it got the CPU, ns.
    pub wait_ns: u64,
    /// From the task's waking until it was runnable, ns; valid only for a wait after a wake-up.
    pub enqueue_ns: u64,
    /// The task that waited.
    pub task: TaskIndex,
    /// The event before the wait.
    pub after: After,
    /// Whether the interval was seen from its start to its end.
    pub whole: Whole,
}

/// Whether an interval was seen from its start to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    Yes,
    No,
}

/// The event before a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// The task was woken while it was blocked.
    Wakeup,
    /// The task was created.
    Birth,
    /// The task lost the CPU while runnable.
    Preemption,
    /// The event is not known.
    Unknown,
}

impl Run {
    /// The length of the stay in wall time, ns.
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
            WaitCause::Preempted { .. } | WaitCause::Throttled { .. } | WaitCause::Released { .. } => {
                After::Preemption
            }
            WaitCause::Unknown => After::Unknown,
        }
    }
}

/// An item that belongs to one of many owners; its key is the position of its owner.
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

/// The number of items in a batch: 16 for each of a thousand busy tasks. Items are counted in 16 bits.
const BATCH: usize = 1 << 14;
/// How many items may be put into a full batch before it is emptied.
const MORE: usize = 8;
/// The counts of this many owners stay in the nearest caches: their items need not be grouped.
const FEW: usize = 24;

/// Items that are collected until there are many.
#[derive(Debug)]
pub(crate) struct Batch<T> {
    list: Vec<T>,
    /// Empty lists, to be filled next.
    empty: Vec<Vec<T>>,
}

/// Whether a batch takes more items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fill {
    Room,
    Full,
}

impl<T> Batch<T> {
    pub(crate) fn new() -> Batch<T> {
        Batch { list: Batch::list(), empty: Vec::new() }
    }

    /// A list with room for a batch. Room that no item has used takes no memory.
    pub(crate) fn list() -> Vec<T> {
        Vec::with_capacity(BATCH + MORE)
    }

    /// Adds an item. Returns whether the batch has room for more, or must be emptied now.
    #[inline]
    #[must_use]
    pub(crate) fn put(&mut self, item: T) -> Fill {
        self.list.push(item);
        if self.list.len() >= BATCH { Fill::Full } else { Fill::Room }
    }

    /// Returns the items, and leaves an empty list.
    pub(crate) fn put_away(&mut self) -> Vec<T> {
        let empty = self.empty.pop().unwrap_or_else(Batch::list);
        std::mem::replace(&mut self.list, empty)
    }

    /// Takes back a list that was given away and is empty now.
    pub(crate) fn recycle(&mut self, empty: Vec<T>) {
        self.empty.push(empty);
    }
}

impl<T: Keyed> Batch<T> {
    /// Empties the batch and returns its items, grouped.
    pub(crate) fn take<'a>(&'a mut self, groups: &'a mut Groups<T>, grouper: &mut Grouper) -> &'a [T] {
        groups.take(&mut self.list, grouper)
    }
}

/// A list of grouped items.
#[derive(Debug)]
pub(crate) struct Groups<T> {
    grouped: Vec<T>,
}

impl<T: Keyed> Groups<T> {
    pub(crate) fn new() -> Groups<T> {
        Groups { grouped: Batch::list() }
    }

    /// Empties a list and returns its items. If there are many owners, the items of each owner come together,
    /// in their order.
    pub(crate) fn take(&mut self, list: &mut Vec<T>, grouper: &mut Grouper) -> &[T] {
        let len = list.len();
        if grouper.count(list) == Owners::Many {
            if self.grouped.len() < len {
                self.grouped.extend_from_slice(&list[self.grouped.len()..]);
            }
            grouper.place(list, &mut self.grouped);
        } else {
            std::mem::swap(list, &mut self.grouped);
        }
        grouper.clear();
        list.clear();
        &self.grouped[..len]
    }
}

/// Brings items of one owner together: a counting sort that visits only the owners in the batch.
#[derive(Debug, Default)]
pub(crate) struct Grouper {
    /// For each owner, first the number of its items, then the place where its next item goes.
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
        batch.take(&mut Groups::new(), grouper).to_vec()
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
