//! The coarse wheel, in which timers wait until their last period.
//!
//! Time is cut into periods. The number of a period is read as digits of six bits, and the wheel has one
//! level a digit, with 64 buckets each. A timer waits on the level of the highest digit in which its period
//! differs from the current one. So each bucket of a level is later than all buckets of lower levels, and the
//! earliest bucket is found by the first bits that are set.

use crate::slots::{NONE, Place, Slots};
use crate::terms::SOFT;

const PERIOD_BITS: u32 = 20;
/// The period of the coarse wheel, in ns: about 1 ms.
pub const PERIOD_NS: u64 = 1 << PERIOD_BITS;

const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;
/// As many levels as the 44 bits of a period's number need.
const LEVELS: usize = 8;

/// The number of the period in which a time lies.
pub(crate) const fn period_of(time_ns: u64) -> u64 {
    time_ns >> PERIOD_BITS
}

/// The timers of some periods, as a list through their slots.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    /// No timer in the bucket has an earlier limit. It may be too early after a timer was cancelled.
    limit_ns: u64,
}

const EMPTY: Bucket = Bucket { head: NONE, limit_ns: SOFT };

/// A wheel of several levels over the slots of a queue.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The current period. Timers of this period and earlier ones are not in the wheel.
    pub(crate) period: u64,
    /// Bit n: bucket n of this level has timers.
    filled: [u64; LEVELS],
    buckets: Box<[Bucket]>,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { period: 0, filled: [0; LEVELS], buckets: vec![EMPTY; LEVELS * BUCKETS].into_boxed_slice() }
    }

    /// The earliest bucket that has timers, and the time at which its first period begins, in ns.
    pub(crate) fn first(&self) -> Option<(u16, u64)> {
        self.filled_buckets().next()
    }

    /// The buckets that have timers, the earliest first, and when their first periods begin, in ns.
    pub(crate) fn filled_buckets(&self) -> impl Iterator<Item = (u16, u64)> + use<> {
        let (mut level, filled, period) = (0, self.filled, self.period);
        let mut bits = filled[0];
        std::iter::from_fn(move || {
            while bits == 0 {
                level += 1;
                bits = *filled.get(level)?;
            }
            let digit = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(((level * BUCKETS + digit) as u16, start_ns(period, level, digit)))
        })
    }

    /// A time, in ns, before which no timer of the bucket reaches its limit.
    pub(crate) fn limit_ns(&self, bucket: u16) -> u64 {
        self.buckets[usize::from(bucket)].limit_ns
    }

    /// Puts a timer of a later period into its bucket.
    pub(crate) fn insert<T>(&mut self, slots: &mut Slots<T>, index: u32) {
        let terms = slots.get(index).terms;
        let period = period_of(terms.deadline_ns);
        debug_assert!(period > self.period);
        let level = (63 - (period ^ self.period).leading_zeros()) / DIGIT_BITS;
        let digit = period >> (level * DIGIT_BITS) & (BUCKETS as u64 - 1);
        let number = level as usize * BUCKETS + digit as usize;
        self.filled[level as usize] |= 1 << digit;
        let bucket = &mut self.buckets[number];
        bucket.limit_ns = bucket.limit_ns.min(terms.limit_ns());
        if bucket.head != NONE {
            slots.get_mut(bucket.head).previous = index;
        }
        let slot = slots.get_mut(index);
        (slot.place, slot.previous, slot.next) = (Place::Far(number as u16), NONE, bucket.head);
        bucket.head = index;
    }

    /// Takes a timer out of its bucket.
    pub(crate) fn remove<T>(&mut self, slots: &mut Slots<T>, index: u32, bucket: u16) {
        let (previous, next) = (slots.get(index).previous, slots.get(index).next);
        if next != NONE {
            slots.get_mut(next).previous = previous;
        }
        if previous != NONE {
            slots.get_mut(previous).next = next;
        } else if next != NONE {
            self.buckets[usize::from(bucket)].head = next;
        } else {
            self.empty(bucket);
        }
        slots.get_mut(index).place = Place::Nowhere;
    }

    /// Empties a bucket. Returns the first slot of the list that was in it.
    pub(crate) fn empty(&mut self, bucket: u16) -> u32 {
        let number = usize::from(bucket);
        self.filled[number / BUCKETS] &= !(1 << (number % BUCKETS));
        std::mem::replace(&mut self.buckets[number], EMPTY).head
    }
}

/// When the first period of a bucket begins, in ns: the digits above its level are the current period's.
fn start_ns(period: u64, level: usize, digit: usize) -> u64 {
    let shift = level as u32 * DIGIT_BITS;
    let above = shift + DIGIT_BITS;
    let period = (period >> above << above) | (digit as u64) << shift;
    period << PERIOD_BITS
}
