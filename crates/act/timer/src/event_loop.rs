//! An epoll loop with firm timers.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::remote::{Orders, Remote};
use crate::terms::{Refused, SOFT};
use crate::{Backstop, Fired, Handle, Terms, Timers, Trigger, now_ns};

/// A descriptor can be read (`EPOLLIN`).
pub const READABLE: u32 = EventFlags::IN.bits();
/// A descriptor can be written (`EPOLLOUT`).
pub const WRITABLE: u32 = EventFlags::OUT.bits();

/// The tokens of the backstop and of other threads' orders. No descriptor may have them.
const BACKSTOP: u64 = u64::MAX;
const ORDERS: u64 = u64::MAX - 1;
/// How many events a wait returns at most.
const EVENTS: usize = 256;

/// A descriptor that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// The token with which the descriptor was added.
    pub token: u64,
    /// The events that have come: [`READABLE`], [`WRITABLE`] and the other bits of `epoll_ctl(2)`.
    pub flags: u32,
}

/// A set of descriptors and a queue of timers of one thread. It sleeps until a descriptor or a timer is due.
///
/// ```
/// use std::time::Duration;
/// use spry_timer::Loop;
///
/// let mut events = Vec::new();
/// let mut event_loop: Loop<&str> = Loop::new()?;
/// // In 2 ms, and at most 50 us later.
/// event_loop.arm_after(Duration::from_millis(2), Duration::from_micros(50), "request 7")?;
/// let mut ended = Vec::new();
/// while ended.is_empty() {
///     let trigger = event_loop.wait(&mut events)?;
///     event_loop.fire(trigger, |_, fired| ended.push(fired.value));
///     for _event in &events {
///         // Work on the descriptor that is ready; its end is a trigger point.
///         event_loop.check(|_, fired| ended.push(fired.value));
///     }
/// }
/// assert_eq!(ended, ["request 7"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Loop<T> {
    timers: Timers<T>,
    backstop: Backstop,
    remote: Remote<T>,
    orders: Orders<T>,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl<T> Loop<T> {
    /// A loop without descriptors and timers.
    ///
    /// # Errors
    /// The kernel makes no epoll or no timer, for example because the process has too many descriptors.
    pub fn new() -> io::Result<Loop<T>> {
        let (backstop, remote) = (Backstop::new()?, Remote::new()?);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let edges = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &backstop, EventData::new_u64(BACKSTOP), edges)?;
        epoll::add(&epoll, &remote, EventData::new_u64(ORDERS), edges)?;
        let (timers, orders) = (Timers::new(), Orders::new());
        Ok(Loop { timers, backstop, remote, orders, epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Adds a descriptor to wait for. `flags` are the events of `epoll_ctl(2)`, such as [`READABLE`]; `token`
    /// names the descriptor in [`Ready`], and may be anything below `u64::MAX - 1`.
    ///
    /// # Errors
    /// The token is too large, or `epoll_ctl(2)` fails: the descriptor was added already, or
    /// cannot be waited for.
    pub fn add(&self, descriptor: impl AsFd, token: u64, flags: u32) -> io::Result<()> {
        if token >= ORDERS {
            let text = format!("a token is 0 to {}, not {token}", ORDERS - 1);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let flags = EventFlags::from_bits_retain(flags);
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(token), flags)?)
    }

    /// Removes a descriptor from the set.
    ///
    /// # Errors
    /// The descriptor was not added.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// A handle with which other threads arm and cancel timers of this loop.
    pub fn remote(&self) -> Remote<T> {
        self.remote.clone()
    }

    /// The timers, to arm, cancel and count them. Their clock is [`now_ns`].
    pub fn timers(&mut self) -> &mut Timers<T> {
        &mut self.timers
    }

    /// Arms a timer that is due after a delay, and may be late by an overshoot. A time beyond 584 years is
    /// infinite: such an overshoot makes a soft timer.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn arm_after(&mut self, delay: Duration, overshoot: Duration, value: T) -> Result<Handle, Refused> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(SOFT);
        let now_ns = now_ns();
        self.timers.arm(now_ns, Terms::firm(now_ns.saturating_add(ns(delay)), ns(overshoot)), value)
    }

    /// Arms the backstop and sleeps until a descriptor is ready, the backstop expires, or another thread arms
    /// or cancels a timer; the events of descriptors replace what `ready` had. A signal ends the sleep
    /// without events. Pass the result to [`fire`](Loop::fire).
    ///
    /// # Errors
    /// The errors of `timerfd_settime(2)` and `epoll_wait(2)`; none is known for a valid loop.
    pub fn wait(&mut self, ready: &mut Vec<Ready>) -> io::Result<Trigger> {
        self.obey();
        self.backstop.arm(self.timers.backstop_ns())?;
        ready.clear();
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut trigger = Trigger::Check;
        for event in &self.events {
            // A packed structure: its fields are copied.
            let (data, flags) = (event.data, event.flags);
            match data.u64() {
                BACKSTOP => {
                    trigger = Trigger::Backstop;
                    self.backstop.note_expiry();
                }
                // The orders are carried out below, whatever ended the sleep.
                ORDERS => {}
                token => ready.push(Ready { token, flags: flags.bits() }),
            }
        }
        self.obey();
        Ok(trigger)
    }

    /// Carries out the orders of other threads.
    #[inline]
    fn obey(&mut self) {
        if self.remote.may_have_orders() {
            self.orders.obey(&self.remote, &mut self.timers);
        }
    }
}

impl<T: Clone> Loop<T> {
    /// Reads the clock and fires all timers that are due, after a [`wait`](Loop::wait). The callback may
    /// arm and cancel timers.
    pub fn fire(&mut self, trigger: Trigger, fired: impl FnMut(&mut Timers<T>, Fired<T>)) {
        fire_due(&mut self.timers, now_ns(), trigger, fired);
    }

    /// A trigger point: fires all timers that are due, unless checks do not pay at the moment. With nothing
    /// due it costs hardly more than reading the clock.
    #[inline]
    pub fn check(&mut self, fired: impl FnMut(&mut Timers<T>, Fired<T>)) {
        self.obey();
        if self.timers.wants_check() {
            let now_ns = now_ns();
            if self.timers.poll(now_ns) {
                fire_due(&mut self.timers, now_ns, Trigger::Check, fired);
            }
        }
    }
}

/// Fires all timers that are due at a time.
fn fire_due<T: Clone>(
    timers: &mut Timers<T>,
    now_ns: u64,
    trigger: Trigger,
    mut fired: impl FnMut(&mut Timers<T>, Fired<T>),
) {
    while let Some(one) = timers.take(now_ns, trigger) {
        fired(timers, one);
    }
}
