//! Counts the items that batches collect, on the time line's thread or on other threads.
//!
//! [`Engine::detach`](crate::Engine::detach) hands out the counting. Then every full batch must be taken from
//! the engine, in order, to the part that counts it ([`Full::part`]). The empty batches should be given back.
//! The findings are the same for any number of parts.

use spry_timeline::Ticked;

use crate::analysis::{About, Counter, Hook};
use crate::batch::{Grouper, Groups, Run, Wait};
use crate::culprits::{Culprits, Stay};

/// A full batch, or an empty one.
#[derive(Debug)]
pub struct Full(pub(crate) Items);

#[derive(Debug)]
pub(crate) enum Items {
    Runs(Vec<Run>),
    Waits(Vec<Wait>),
    Stays(Vec<Stay>),
    Ticks(Vec<Ticked>),
}

impl Full {
    /// The most parts into which [`Counting`] can be split.
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
pub(crate) type Named = (&'static About, Box<dyn Counter>);

/// The counters of batches, all of them or a part.
#[derive(Default)]
pub struct Counting {
    grouper: Grouper,
    runs: Option<OfKind<Run, Vec<Named>>>,
    waits: Option<OfKind<Wait, Vec<Named>>>,
    stays: Option<OfKind<Stay, Culprits>>,
}

impl Counting {
    pub(crate) fn new(counters: Vec<Named>, culprits: Option<Culprits>) -> Counting {
        let (waits, runs): (Vec<_>, Vec<_>) =
            counters.into_iter().partition(|(about, _)| about.hooks.contains(&Hook::Waits));
        debug_assert!(waits.iter().all(|(about, _)| !about.hooks.contains(&Hook::Runs)), "one kind each");
        Counting {
            grouper: Grouper::default(),
            runs: Some(OfKind { groups: Groups::new(), counters: runs }),
            waits: Some(OfKind { groups: Groups::new(), counters: waits }),
            stays: culprits.map(|counters| OfKind { groups: Groups::new(), counters }),
        }
    }

    /// Splits the counters into at most [`Full::PARTS_MAX`] parts; each part counts some kinds of batches.
    pub(crate) fn split(mut self, parts: usize) -> Vec<Counting> {
        let stays = Counting { stays: self.stays.take_if(|_| parts > 2), ..Counting::default() };
        let waits = Counting {
            waits: self.waits.take_if(|_| parts > 1),
            stays: self.stays.take_if(|_| parts > 1),
            ..Counting::default()
        };
        [self, waits, stays].into_iter().take(parts.clamp(1, Full::PARTS_MAX)).collect()
    }

    /// Takes another part's counters over.
    pub(crate) fn join(&mut self, part: Counting) {
        self.runs = self.runs.take().or(part.runs);
        self.waits = self.waits.take().or(part.waits);
        self.stays = self.stays.take().or(part.stays);
    }

    /// Counts a batch, and empties it.
    pub fn count(&mut self, full: &mut Full) {
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
    pub(crate) fn into_counters(self) -> (Vec<Named>, Culprits) {
        let mut counters = self.runs.map_or_else(Vec::new, |of| of.counters);
        counters.extend(self.waits.map_or_else(Vec::new, |of| of.counters));
        (counters, self.stays.map_or_else(Culprits::default, |of| of.counters))
    }
}
