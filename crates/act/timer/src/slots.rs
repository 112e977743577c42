//! The timers of a queue, in slots that are used again, and the handles that name them.

use crate::Terms;
use crate::terms::Refused;

/// No slot: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;
/// The sequence number of a slot without a timer. No timer has it.
const UNUSED: u64 = u64::MAX;

/// Names a timer of one queue, until it has fired for the last time or was cancelled. A later timer in the
/// same slot has another handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

impl Handle {
    /// The handle as a number for callers that can keep nothing else. It is never 0.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// The handle of a number from [`Handle::to_bits`]. Any other number names no timer, or another timer.
    pub const fn from_bits(bits: u64) -> Handle {
        Handle { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Where a timer waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In no structure: the slot is free, or its timer is being moved.
    Nowhere,
    /// In the heaps of the queue.
    Near,
    /// In this bucket of the wheel.
    Far(u16),
}

/// A slot, and the timer in it.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    generation: u32,
    pub(crate) place: Place,
    pub(crate) terms: Terms,
    /// The order in which the timers of one deadline were armed; it also names this arming of the timer.
    pub(crate) sequence: u64,
    /// The neighbours in a bucket of the wheel; `next` is also the next free slot.
    pub(crate) previous: u32,
    pub(crate) next: u32,
    value: Option<T>,
}

/// All slots of a queue.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    all: Vec<Slot<T>>,
    free: u32,
    sequence: u64,
    pub(crate) count: usize,
    /// How many timers have no limit.
    pub(crate) soft: usize,
}

impl<T> Slots<T> {
    pub(crate) fn with_capacity(timers: usize) -> Slots<T> {
        Slots { all: Vec::with_capacity(timers), free: NONE, sequence: 0, count: 0, soft: 0 }
    }

    /// Puts a timer into a free slot.
    pub(crate) fn insert(&mut self, terms: Terms, value: T) -> Result<Handle, Refused> {
        let sequence = self.next_sequence();
        let index = if self.free == NONE {
            let index = u32::try_from(self.all.len()).unwrap_or(NONE);
            if index == NONE {
                return Err(Refused::Full { most: NONE });
            }
            let (place, previous, next) = (Place::Nowhere, NONE, NONE);
            self.all.push(Slot { generation: 1, place, terms, sequence, previous, next, value: Some(value) });
            index
        } else {
            let index = self.free;
            let slot = &mut self.all[index as usize];
            self.free = slot.next;
            (slot.terms, slot.sequence, slot.value) = (terms, sequence, Some(value));
            index
        };
        self.count += 1;
        self.soft += usize::from(terms.limit_ns() == crate::SOFT);
        Ok(Handle { index, generation: self.all[index as usize].generation })
    }

    /// Gives a timer new terms. Entries of heaps that name its earlier arming are void from now on.
    pub(crate) fn renew(&mut self, index: u32, terms: Terms) {
        let sequence = self.next_sequence();
        let slot = &mut self.all[index as usize];
        self.soft -= usize::from(slot.terms.limit_ns() == crate::SOFT);
        self.soft += usize::from(terms.limit_ns() == crate::SOFT);
        (slot.terms, slot.sequence) = (terms, sequence);
    }

    /// Takes the timer out of a slot.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = &mut self.all[index as usize];
        let value = slot.value.take()?;
        self.count -= 1;
        self.soft -= usize::from(slot.terms.limit_ns() == crate::SOFT);
        (slot.place, slot.sequence) = (Place::Nowhere, UNUSED);
        // After its last generation a slot is not used again: a handle would name two timers.
        if let Some(generation) = slot.generation.checked_add(1) {
            (slot.generation, slot.next) = (generation, self.free);
            self.free = index;
        }
        Some(value)
    }

    /// The slot of a timer that has not ended.
    pub(crate) fn index_of(&self, handle: Handle) -> Option<u32> {
        let slot = self.all.get(handle.index as usize)?;
        (slot.generation == handle.generation && slot.value.is_some()).then_some(handle.index)
    }

    /// The handle of the timer in a slot.
    pub(crate) fn handle_of(&self, index: u32) -> Handle {
        Handle { index, generation: self.all[index as usize].generation }
    }

    pub(crate) fn get(&self, index: u32) -> &Slot<T> {
        &self.all[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Slot<T> {
        &mut self.all[index as usize]
    }

    pub(crate) fn value(&self, index: u32) -> Option<&T> {
        self.all[index as usize].value.as_ref()
    }

    pub(crate) fn value_mut(&mut self, index: u32) -> Option<&mut T> {
        self.all[index as usize].value.as_mut()
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_retired_after_its_last_generation() {
        let mut slots = Slots::with_capacity(1);
        let first = slots.insert(Terms::hard(1), 'a').expect("there is room");
        slots.all[0].generation = u32::MAX;
        assert_eq!(slots.remove(0), Some('a'));
        let second = slots.insert(Terms::hard(1), 'b').expect("there is room");
        assert_eq!((first.index, second.index), (0, 1));
    }
}
