//! Counts the items that batches collect, on the time line's thread or on other threads.
//!
//! [`Engine::detach`](crate::Engine::detach) hands out the counting. Then every full batch must be taken from
//! the engine, in order, to the part that counts it ([`FullBatch::part`]). The empty batches should be given
//! back. The findings are the same for any number of parts.

use spry_timeline::Ticked;

use crate::analysis::{About, Counter, Hook};
use crate::batch::{Grouper, Groups, Run, Wait};
use crate::culprits::{Culprits, Stay};

/// A full batch, or an empty one.
#[derive(Debug)]
pub struct FullBatch(pub(crate) Items);

#[derive(Debug)]
pub(crate) enum Items {
    Runs(Vec<Run>),
    Waits(Vec<Wait>),
    Stays(Vec<Stay>),
    Ticks(Vec<Ticked>),
}

impl FullBatch {
    /// The most parts into which [`CounterSet`] can be split.
    pub const PARTS_MAX: usize = 3;

    /// The position of the part that counts the batch, if there are this many parts.
    pub fn part(&self, parts: usize) -> usize {
        let kind = match self.0 {
            Items::Runs(_) | Items::Ticks(_) => 0,
            Items::Waits(_) => 1,
            Items::Stays(_) => 2,
        };
        kind.min(parts.max(1) - 1)
    }
}

/// The counters of one kind of batches, and the list in which items are grouped.
struct OfKind<T, C> {
    groups: Groups<T>,
    counters: C,
}

/// A counter, and the analysis that it belongs to.
pub(crate) type NamedCounter = (&'static About, Box<dyn Counter>);

/// The counters of batches, all of them or a part.
#[derive(Default)]
pub struct CounterSet {
    grouper: Grouper,
    runs: Option<OfKind<Run, Vec<NamedCounter>>>,
    waits: Option<OfKind<Wait, Vec<NamedCounter>>>,
    stays: Option<OfKind<Stay, Culprits>>,
}

impl CounterSet {
    pub(crate) fn new(counters: Vec<NamedCounter>, culprits: Option<Culprits>) -> CounterSet {
        let (waits, runs): (Vec<_>, Vec<_>) =
            counters.into_iter().partition(|(about, _)| about.hooks.contains(&Hook::Waits));
        debug_assert!(waits.iter().all(|(about, _)| !about.hooks.contains(&Hook::Runs)), "one kind each");
        CounterSet {
            grouper: Grouper::default(),
            runs: Some(OfKind { groups: Groups::new(), counters: runs }),
            waits: Some(OfKind { groups: Groups::new(), counters: waits }),
            stays: culprits.map(|counters| OfKind { groups: Groups::new(), counters }),
        }
    }

    /// Splits the counters into at most [`FullBatch::PARTS_MAX`] parts; each part counts some
    /// kinds of batches.
    pub(crate) fn split(mut self, parts: usize) -> Vec<CounterSet> {
        let stays = CounterSet { stays: self.stays.take_if(|_| parts > 2), ..CounterSet::default() };
        let waits = CounterSet {
            waits: self.waits.take_if(|_| parts > 1),
            stays: self.stays.take_if(|_| parts > 1),
            ..CounterSet::default()
        };
        [self, waits, stays].into_iter().take(parts.clamp(1, FullBatch::PARTS_MAX)).collect()
    }

    /// Takes another part's counters over.
    pub(crate) fn join(&mut self, part: CounterSet) {
        self.runs = self.runs.take().or(part.runs);
        self.waits = self.waits.take().or(part.waits);
        self.stays = self.stays.take().or(part.stays);
    }

    /// Counts a batch, and empties it.
    pub fn count(&mut self, full: &mut FullBatch) {
        let grouper = &mut self.grouper;
        match (&mut full.0, &mut self.runs, &mut self.waits, &mut self.stays) {
            (Items::Runs(list), Some(OfKind { groups, counters }), ..) => {
                let runs = groups.take(list, grouper);
                counters.iter_mut().for_each(|(_, counter)| counter.runs(runs));
            }
            (Items::Waits(list), _, Some(OfKind { groups, counters }), _) => {
                let waits = groups.take(list, grouper);
                counters.iter_mut().for_each(|(_, counter)| counter.waits(waits));
            }
            (Items::Stays(list), .., Some(OfKind { groups, counters })) => {
                counters.count(groups.take(list, grouper));
            }
            (Items::Ticks(list), Some(OfKind { counters, .. }), ..) => {
                counters.iter_mut().for_each(|(_, counter)| counter.ticks(list));
                list.clear();
            }
            _ => panic!("the batch is another part's"),
        }
    }

    /// The counters, and the counts of culprits.
    pub(crate) fn into_counters(self) -> (Vec<NamedCounter>, Culprits) {
        let mut counters = self.runs.map_or_else(Vec::new, |of| of.counters);
        counters.extend(self.waits.map_or_else(Vec::new, |of| of.counters));
        (counters, self.stays.map_or_else(Culprits::default, |of| of.counters))
    }
}
