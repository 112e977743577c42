//! A page of the kernel's ring buffer (`include/linux/ring_buffer.h`, `ring_buffer_event`).

use std::ops::Range;

use crate::input::Order;
use crate::meta::PageLayout;

/// Values of `type_len` that do not give a length; a value between 0 and these is a quarter of the record's
/// length.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const TYPE_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
/// The number of bits of an absolute time; the higher bits are taken from the previous time.
const STAMP_BITS: u32 = 59;

/// Bits of the word with the number of the page's used bytes.
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const USED_MASK: u64 = (1 << 30) - 1;

/// The state of reading a page: offsets in the page, bytes, and the latest time, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    at: usize,
    end: usize,
    time_ns: u64,
}

/// The number of missing events before a page, as the page states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gap {
    /// No events are missing before the page.
    Nothing,
    /// This many events are missing before the page; `None` if their number is not known.
    Events(Option<u64>),
}

/// The next item of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A record: its stamp and its place in the page.
    Record(u64, Range<usize>),
    /// The page is over.
    End,
    /// The rest of the page, of this many bytes, is unreadable.
    Damage(usize),
}

impl Page {
    /// A page without records.
    pub(crate) const EMPTY: Page = Page { at: 0, end: 0, time_ns: 0 };

    /// Begins a page; `None` if the bytes cannot be a page.
    pub(crate) fn begin(page: &[u8], layout: PageLayout, order: Order) -> Option<(Page, Gap)> {
        let time_ns = order.number_at(page, 0, 8)?;
        let used = order.number_at(page, 8, layout.commit_size)?;
        let end = layout.data_at.checked_add((used & USED_MASK) as usize)?;
        if end > page.len() {
            return None;
        }
        let missed = if used & MISSED_EVENTS == 0 {
            Gap::Nothing
        } else {
            let stored = (used & MISSED_STORED != 0).then(|| order.number_at(page, end, layout.commit_size));
            Gap::Events(stored.flatten())
        };
        Some((Page { at: layout.data_at, end, time_ns }, missed))
    }

    /// The next record of the page.
    #[inline]
    pub(crate) fn next(&mut self, page: &[u8], order: Order) -> Step {
        loop {
            if self.at >= self.end {
                return Step::End;
            }
            match self.entry(page, order) {
                Some(Entry::Record(place)) => return Step::Record(self.time_ns, place),
                Some(Entry::Other) => {}
                None => {
                    let rest = self.end - self.at.min(self.end);
                    self.at = self.end;
                    return Step::Damage(rest);
                }
            }
        }
    }

    /// Passes over one entry of the page; `None` if the entry reaches beyond the page's end.
    #[inline]
    fn entry(&mut self, page: &[u8], order: Order) -> Option<Entry> {
        let word = |at: usize| order.number_at(&page[..self.end], at, 4).map(|word| word as u32);
        let head = word(self.at)?;
        let (kind, delta) = match order {
            Order::Little => (head & ((1 << TYPE_BITS) - 1), head >> TYPE_BITS),
            Order::Big => (head >> DELTA_BITS, head & ((1 << DELTA_BITS) - 1)),
        };
        let body = self.at + 4;
        let long = || word(body).map(|more| (u64::from(more) << DELTA_BITS) | u64::from(delta));
        let (start, len) = match kind {
            // The rest of the page is unused.
            PADDING if delta == 0 => {
                self.at = self.end;
                return Some(Entry::Other);
            }
            // A record that the kernel has discarded.
            PADDING => {
                let len = word(body)? as usize;
                self.time_ns = self.time_ns.wrapping_add(u64::from(delta));
                self.at = body.checked_add(len.max(4)).filter(|&at| at <= self.end)?;
                return Some(Entry::Other);
            }
            TIME_EXTEND => {
                self.time_ns = self.time_ns.wrapping_add(long()?);
                self.at = body + 4;
                return Some(Entry::Other);
            }
            TIME_STAMP => {
                let high = self.time_ns >> STAMP_BITS << STAMP_BITS;
                self.time_ns = high | (long()? & ((1 << STAMP_BITS) - 1));
                self.at = body + 4;
                return Some(Entry::Other);
            }
            0 => (body + 4, (word(body)? as usize).checked_sub(4)?),
            quarters => (body, 4 * quarters as usize),
        };
        let end = start.checked_add(len).filter(|&end| end <= self.end)?;
        self.time_ns = self.time_ns.wrapping_add(u64::from(delta));
        self.at = end.next_multiple_of(4);
        Some(Entry::Record(start..end))
    }
}

enum Entry {
    Record(Range<usize>),
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout = PageLayout { commit_size: 8, data_at: 16 };

    fn page(time_ns: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = time_ns.to_le_bytes().to_vec();
        page.extend_from_slice(&(flags | (4 * words.len() as u64)).to_le_bytes());
        words.iter().for_each(|word| page.extend_from_slice(&word.to_le_bytes()));
        page
    }

    fn steps(bytes: &[u8]) -> Vec<Step> {
        let (mut page, _) = Page::begin(bytes, LAYOUT, Order::Little).unwrap();
        let mut found = Vec::new();
        loop {
            let step = page.next(bytes, Order::Little);
            let is_last = !matches!(step, Step::Record(..));
            found.push(step);
            if is_last {
                return found;
            }
        }
    }

    #[test]
    fn records_extends_stamps_and_padding_are_told_apart() {
        let delta = |kind: u32, delta: u32| (delta << 5) | kind;
        let bytes = page(
            1 << 60,
            0,
            &[
                delta(2, 10),
                1,
                2, // eight bytes, 10 ns later
                delta(30, 5),
                1, // 2^27 + 5 ns later
                delta(0, 1),
                9,
                3,
                4, // five bytes, padded to eight
                delta(29, 7),
                4, // taken back, 7 ns
                delta(31, 3),
                2, // at 2^28 + 3 and the high bits
                delta(1, 0),
                5,
                delta(29, 0),
                0,
            ],
        );
        let high = 1 << 60;
        let extended = high + 10 + (1 << 27) + 5 + 1;
        let expected = vec![
            Step::Record(high + 10, 20..28),
            Step::Record(extended, 44..49),
            Step::Record(high + (1 << 28) + 3, 72..76),
            Step::End,
        ];
        assert_eq!(steps(&bytes), expected);
    }

    #[test]
    fn missing_events_before_a_page_are_reported() {
        let mut bytes = page(5, MISSED_EVENTS | MISSED_STORED, &[1, 0]);
        bytes.extend_from_slice(&77u64.to_le_bytes());
        assert_eq!(Page::begin(&bytes, LAYOUT, Order::Little).unwrap().1, Gap::Events(Some(77)));
        let bytes = page(5, MISSED_EVENTS, &[1, 0]);
        assert_eq!(Page::begin(&bytes, LAYOUT, Order::Little).unwrap().1, Gap::Events(None));
        let bytes = page(5, 0, &[1, 0]);
        assert_eq!(Page::begin(&bytes, LAYOUT, Order::Little).unwrap().1, Gap::Nothing);
    }

    #[test]
    fn a_record_that_reaches_over_the_end_is_damage() {
        assert_eq!(steps(&page(5, 0, &[28, 1])), [Step::Damage(8)]);
        assert_eq!(steps(&page(5, 0, &[0, u32::MAX])), [Step::Damage(8)]);
        assert!(Page::begin(&page(5, 100, &[]), LAYOUT, Order::Little).is_none());
    }
}
