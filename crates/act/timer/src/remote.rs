//! Timers that other threads arm on a loop.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::inbox::Inbox;
use crate::terms::{Refused, SOFT};
use crate::{Handle, Terms, Timers, now_ns};

/// An order of another thread to a loop.
#[derive(Debug)]
enum Order<T> {
    Arm { terms: Terms, value: T },
    Cancel(Handle),
}

/// Arms and cancels timers of a [`Loop`](crate::Loop) from any thread; a clone serves the same loop. A loop
/// that sleeps is woken; a loop that works carries out the order at its next trigger point.
#[derive(Debug)]
pub struct Remote<T>(Arc<Shared<T>>);

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Remote<T> {
        Remote(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<T> {
    inbox: Inbox<Order<T>>,
    /// An event counter, for an edge-triggered registration: each write is an event, and nothing is read.
    wakes: OwnedFd,
}

impl<T> Remote<T> {
    pub(crate) fn new() -> io::Result<Remote<T>> {
        let wakes = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Remote(Arc::new(Shared { inbox: Inbox::new(), wakes })))
    }

    /// Arms a timer. If the deadline has passed when the loop gets the order, the timer fires at once.
    ///
    /// # Errors
    /// The terms cannot be kept; see [`Refused`].
    pub fn arm(&self, terms: Terms, value: T) -> Result<(), Refused> {
        self.arm_checked(now_ns(), terms, value)
    }

    /// Arms a timer that is due after a delay, and may be late by an overshoot.
    ///
    /// # Errors
    /// See [`Remote::arm`].
    pub fn arm_after(&self, delay: Duration, overshoot: Duration, value: T) -> Result<(), Refused> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(SOFT);
        let now_ns = now_ns();
        self.arm_checked(now_ns, Terms::firm(now_ns.saturating_add(ns(delay)), ns(overshoot)), value)
    }

    fn arm_checked(&self, now_ns: u64, terms: Terms, value: T) -> Result<(), Refused> {
        terms.check(now_ns)?;
        self.order(Order::Arm { terms, value });
        Ok(())
    }

    /// Cancels a timer by a handle that the loop's thread has passed on. The timer may still fire before the
    /// loop carries this out.
    pub fn cancel(&self, handle: Handle) {
        self.order(Order::Cancel(handle));
    }

    fn order(&self, order: Order<T>) {
        if self.0.inbox.push(order) {
            // The write fails only when the counter is full, and a full counter has woken the loop.
            _ = rustix::io::write(&self.0.wakes, &1_u64.to_ne_bytes());
        }
    }

    /// Whether there may be orders for [`obey`](Orders::obey).
    #[inline]
    pub(crate) fn may_have_orders(&self) -> bool {
        self.0.inbox.may_have_messages()
    }
}

impl<T> AsFd for Remote<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wakes.as_fd()
    }
}

/// The loop's memory for orders that it has taken.
#[derive(Debug)]
pub(crate) struct Orders<T>(Vec<Order<T>>);

impl<T> Orders<T> {
    pub(crate) fn new() -> Orders<T> {
        Orders(Vec::new())
    }

    /// Carries out the orders of other threads.
    pub(crate) fn obey(&mut self, remote: &Remote<T>, timers: &mut Timers<T>) {
        remote.0.inbox.take(&mut self.0);
        let now_ns = now_ns();
        for order in self.0.drain(..) {
            match order {
                Order::Arm { terms, value } => timers.arm_late(now_ns, terms, value),
                Order::Cancel(handle) => drop(timers.cancel(handle)),
            }
        }
    }
}
