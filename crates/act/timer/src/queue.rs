//! The queue of one thread's timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::checking::{Checking, Costs, Counts};
use crate::slots::{Handle, NONE, Place, Slots};
use crate::terms::{Refused, SOFT, Terms};
use crate::wheel::{Wheel, period_of};

/// What made the program look for timers that are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// A trigger point: the program was awake for another reason.
    Check,
    /// The kernel's timer expired.
    Backstop,
}

/// A timer that fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired<T> {
    /// The timer. The handle still names it if it is periodic.
    pub handle: Handle,
    /// The value with which the timer was armed.
    pub value: T,
    /// The deadline that has passed, in ns.
    pub deadline_ns: u64,
    /// The time from the deadline until now, in ns.
    pub late_ns: u64,
}

/// An entry of a heap: a time, the sequence number of the timer's arming, and the timer's slot. It is void if
/// the slot has another sequence number.
type Entry = Reverse<(u64, u64, u32)>;

/// A heap may have as many void entries as valid entries, and this many more.
const VOID_ENTRIES: usize = 64;

/// A queue of firm timers that belongs to one thread; `T` is the type of the timers' values.
#[derive(Debug)]
pub struct Timers<T> {
    /// No timer is due before this time.
    next_ns: u64,
    counts: Counts,
    checking: Checking,
    slots: Slots<T>,
    wheel: Wheel,
    /// The timers that are not in the wheel, by deadline.
    by_deadline: BinaryHeap<Entry>,
    /// The timers in `by_deadline` that have a limit, by limit.
    by_limit: BinaryHeap<Entry>,
    /// How many timers are in the heaps.
    near: usize,
}

impl<T> Default for Timers<T> {
    fn default() -> Timers<T> {
        Timers::new()
    }
}

impl<T> Timers<T> {
    /// An empty queue.
    pub fn new() -> Timers<T> {
        Timers::with_capacity(0)
    }

    /// An empty queue that allocates no more until it has so many timers at once.
    pub fn with_capacity(timers: usize) -> Timers<T> {
        let entries = if timers == 0 { 0 } else { 2 * timers + VOID_ENTRIES + 1 };
        Timers {
            next_ns: SOFT,
            counts: Counts::default(),
            checking: Checking::new(Costs::default()),
            slots: Slots::with_capacity(timers),
            wheel: Wheel::new(),
            by_deadline: BinaryHeap::with_capacity(entries),
            by_limit: BinaryHeap::with_capacity(entries),
            near: 0,
        }
    }

    /// Arms a timer.
    ///
    /// # Errors
    /// The terms cannot be kept, or the queue is full; see [`Refused`].
    pub fn arm(&mut self, now_ns: u64, terms: Terms, value: T) -> Result<Handle, Refused> {
        terms.check(now_ns)?;
        self.insert(now_ns, terms, value)
    }

    /// Arms a timer with terms that were checked earlier: the deadline may have passed since. In a queue
    /// that is full there is no room for it, and it is dropped.
    #[cfg(feature = "epoll")]
    pub(crate) fn arm_late(&mut self, now_ns: u64, terms: Terms, value: T) {
        _ = self.insert(now_ns, terms, value);
    }

    fn insert(&mut self, now_ns: u64, terms: Terms, value: T) -> Result<Handle, Refused> {
        let handle = self.slots.insert(terms, value)?;
        self.advance(now_ns);
        if let Some(index) = self.slots.index_of(handle) {
            self.place(index);
        }
        self.watch(terms);
        Ok(handle)
    }

    /// Gives a timer new terms, as if it were armed now. Its handle stays.
    ///
    /// # Errors
    /// The terms cannot be kept, and the old ones hold; or the timer has ended.
    pub fn rearm(&mut self, now_ns: u64, handle: Handle, terms: Terms) -> Result<(), Refused> {
        let index = self.slots.index_of(handle).ok_or(Refused::Ended)?;
        terms.check(now_ns)?;
        self.unplace(index);
        self.slots.renew(index, terms);
        self.advance(now_ns);
        self.place(index);
        self.tidy();
        self.watch(terms);
        Ok(())
    }

    /// Takes a timer out of the queue. Returns its value; `None` if it has ended.
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        let index = self.slots.index_of(handle)?;
        self.unplace(index);
        let value = self.slots.remove(index);
        self.tidy();
        value
    }

    /// Whether a timer may be due: a check, which is one comparison. It counts as one of N_c. If it is true,
    /// [`Timers::take`] returns the timers, or finds that the earliest was cancelled or is due later within
    /// its last period.
    #[inline]
    pub fn poll(&mut self, now_ns: u64) -> bool {
        self.counts.checks += 1;
        now_ns >= self.next_ns
    }

    /// Whether the program should read the clock and [`poll`](Timers::poll) at this trigger point: not while
    /// checks do not pay and no soft timer waits. From time to time some checks are tried again. Call it at
    /// each trigger point at which the program does not have the time anyway.
    #[inline]
    pub fn wants_check(&mut self) -> bool {
        if self.checking.passes() {
            return self.checking.is_on();
        }
        self.checking.decide(&self.counts, self.slots.soft)
    }

    /// The time at which the kernel's timer must expire, in ns: exactly the earliest deadline plus overshoot.
    /// `None` if no timer is pending or all are soft.
    pub fn backstop_ns(&mut self) -> Option<u64> {
        let mut earliest_ns = self.earliest_limit_ns();
        for (bucket, start_ns) in self.wheel.filled_buckets() {
            // No timer from here on has an earlier limit than its own deadline.
            if start_ns >= earliest_ns {
                break;
            }
            if self.wheel.limit_ns(bucket) < earliest_ns {
                self.open(bucket);
                earliest_ns = self.earliest_limit_ns();
                self.look_ahead();
            }
        }
        (earliest_ns != SOFT).then_some(earliest_ns)
    }

    /// A time before which no timer is due, in ns; `None` if none is pending. It is the earliest deadline, or
    /// earlier if that timer is not in its last period yet or was cancelled.
    pub fn next_ns(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.next_ns)
    }

    /// When a timer is due, in ns; `None` if it has ended.
    pub fn deadline_ns(&self, handle: Handle) -> Option<u64> {
        self.slots.index_of(handle).map(|index| self.slots.get(index).terms.deadline_ns)
    }

    /// The value of a timer, to change it; `None` if the timer has ended.
    pub fn value_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let index = self.slots.index_of(handle)?;
        self.slots.value_mut(index)
    }

    /// How many timers are pending.
    pub fn len(&self) -> usize {
        self.slots.count
    }

    /// Whether no timer is pending.
    pub fn is_empty(&self) -> bool {
        self.slots.count == 0
    }

    /// The counts since the queue was made.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The costs of checks and expiries, as set by [`Timers::set_costs`], or else the paper's.
    pub fn costs(&self) -> Costs {
        self.checking.costs
    }

    /// Sets the costs of checks and expiries on this machine. The next decision about checks uses them.
    pub fn set_costs(&mut self, costs: Costs) {
        self.checking.costs = costs;
    }

    /// Whether checks are on: the latest ones paid, a soft timer waits, or they are being tried.
    pub fn is_checking(&self) -> bool {
        self.checking.is_on()
    }

    /// Ends a rest of checks if a timer needs them.
    fn watch(&mut self, terms: Terms) {
        if terms.limit_ns() == SOFT {
            self.checking.wake(&self.counts);
        }
    }

    /// Moves the wheel on to the period of this time.
    fn advance(&mut self, now_ns: u64) {
        let period = period_of(now_ns);
        if period <= self.wheel.period {
            return;
        }
        while let Some((bucket, start_ns)) = self.wheel.first().filter(|&(_, start_ns)| start_ns <= now_ns) {
            let mut index = self.wheel.empty(bucket);
            self.wheel.period = period_of(start_ns);
            while index != NONE {
                let next = self.slots.get(index).next;
                self.place(index);
                index = next;
            }
        }
        self.wheel.period = period;
    }

    /// Puts a timer into the heaps if it is due in the current period or earlier, else into the wheel.
    fn place(&mut self, index: u32) {
        let deadline_ns = self.slots.get(index).terms.deadline_ns;
        if period_of(deadline_ns) > self.wheel.period {
            self.wheel.insert(&mut self.slots, index);
            let (_, start_ns) = self.wheel.first().expect("a bucket is filled");
            self.next_ns = self.next_ns.min(start_ns);
        } else {
            self.bring_near(index);
        }
    }

    /// Puts a timer into the heaps.
    fn bring_near(&mut self, index: u32) {
        let slot = self.slots.get_mut(index);
        slot.place = Place::Near;
        let (terms, sequence) = (slot.terms, slot.sequence);
        self.by_deadline.push(Reverse((terms.deadline_ns, sequence, index)));
        if terms.limit_ns() != SOFT {
            self.by_limit.push(Reverse((terms.limit_ns(), sequence, index)));
        }
        self.near += 1;
        self.next_ns = self.next_ns.min(terms.deadline_ns);
    }

    /// Takes a timer out of the wheel or the heaps. Heap entries become void with its next sequence number.
    fn unplace(&mut self, index: u32) {
        match self.slots.get(index).place {
            Place::Nowhere => {}
            Place::Near => self.near -= 1,
            Place::Far(bucket) => self.wheel.remove(&mut self.slots, index, bucket),
        }
        self.slots.get_mut(index).place = Place::Nowhere;
    }

    /// Moves the timers of a bucket to the heaps before its time, so that their limits are known exactly.
    fn open(&mut self, bucket: u16) {
        let mut index = self.wheel.empty(bucket);
        while index != NONE {
            let next = self.slots.get(index).next;
            self.bring_near(index);
            index = next;
        }
    }

    /// The earliest limit in the heaps; [`SOFT`] if there is none.
    fn earliest_limit_ns(&mut self) -> u64 {
        while let Some(&Reverse((limit_ns, sequence, index))) = self.by_limit.peek() {
            if self.slots.get(index).sequence == sequence {
                return limit_ns;
            }
            self.by_limit.pop();
        }
        SOFT
    }

    /// Drops the void entries of a heap if there are many. The calls that made these entries pay for this.
    fn tidy(&mut self) {
        let most = 2 * self.near + VOID_ENTRIES;
        for heap in [&mut self.by_deadline, &mut self.by_limit] {
            if heap.len() > most {
                heap.retain(|&Reverse((_, sequence, index))| self.slots.get(index).sequence == sequence);
            }
        }
    }

    /// Computes anew the time before which no timer is due.
    fn look_ahead(&mut self) {
        let near_ns = self.by_deadline.peek().map_or(SOFT, |&Reverse((deadline_ns, ..))| deadline_ns);
        let far_ns = self.wheel.first().map_or(SOFT, |(_, start_ns)| start_ns);
        self.next_ns = near_ns.min(far_ns);
    }
}

impl<T: Clone> Timers<T> {
    /// Takes the next timer that is due: the earliest deadline first, and of one deadline the timer that was
    /// armed first. A periodic timer is armed again, and `T` is cloned for it.
    #[inline]
    pub fn take(&mut self, now_ns: u64, trigger: Trigger) -> Option<Fired<T>> {
        if now_ns < self.next_ns {
            return None;
        }
        self.advance(now_ns);
        let fired = self.fire(now_ns);
        self.look_ahead();
        if fired.is_some() {
            match trigger {
                Trigger::Check => self.counts.soft += 1,
                Trigger::Backstop => self.counts.hard += 1,
            }
        }
        fired
    }

    /// Takes the earliest timer out of the heaps if it is due.
    fn fire(&mut self, now_ns: u64) -> Option<Fired<T>> {
        while let Some(&Reverse((deadline_ns, sequence, index))) = self.by_deadline.peek() {
            let is_void = self.slots.get(index).sequence != sequence;
            if !is_void && deadline_ns > now_ns {
                return None;
            }
            self.by_deadline.pop();
            if is_void {
                continue;
            }
            let handle = self.slots.handle_of(index);
            self.unplace(index);
            let value = self.value_of(index)?;
            self.tidy();
            return Some(Fired { handle, value, deadline_ns, late_ns: now_ns - deadline_ns });
        }
        None
    }

    /// The value of a timer that fires; the timer is armed for its next period if it has one.
    fn value_of(&mut self, index: u32) -> Option<T> {
        let terms = self.slots.get(index).terms;
        let next_ns = terms.period_ns.and_then(|period_ns| terms.deadline_ns.checked_add(period_ns));
        let Some(deadline_ns) = next_ns else { return self.slots.remove(index) };
        let value = self.slots.value(index).cloned();
        self.slots.renew(index, Terms { deadline_ns, ..terms });
        self.place(index);
        value
    }
}
