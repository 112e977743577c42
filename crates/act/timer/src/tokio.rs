//! Sleeps and intervals for tasks of tokio, with an overshoot each.
//!
//! tokio's own timers are due at full milliseconds. Here a time is a number of nanoseconds. A task is woken
//! at most an overshoot later, as far as the runtime has a thread to run it. The end of a sleep is a trigger
//! point, at which all tasks that are due are woken. A program with long pieces of work adds other trigger
//! points with [`Time::check`]. A timerfd is the backstop.
//!
//! ```
//! use std::time::Duration;
//! use spry_timer::tokio::Time;
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! runtime.block_on(async {
//!     let time = Time::start()?;
//!     time.sleep(Duration::from_micros(300), Duration::from_micros(50)).await;
//!     let mut ticks = time.interval(Duration::from_micros(500), Duration::from_micros(100))?;
//!     for _ in 0..3 {
//!         ticks.tick().await;
//!     }
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::future::{Future, poll_fn, ready};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle as Runtime;
use tokio::task::{JoinHandle, coop};

use crate::terms::{Refused, SOFT};
use crate::{Backstop, Counts, Handle, Terms, Timers, Trigger, now_ns};

/// The sleeps of a runtime's tasks. A clone shares them.
#[derive(Clone, Debug)]
pub struct Time(Arc<Started>);

/// Aborts the driver when the last [`Time`], sleep or interval is dropped.
#[derive(Debug)]
struct Started {
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
}

impl Drop for Started {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The data that all threads of the runtime share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    descriptor: RawFd,
    /// One moment by both clocks.
    start: Instant,
    start_ns: u64,
}

#[derive(Debug)]
struct State {
    timers: Timers<Waker>,
    backstop: Backstop,
    /// The time for which the backstop is armed, ns; [`SOFT`] if it is not armed.
    armed_ns: u64,
}

/// Keeps the timerfd open while the runtime watches it.
struct Watched(Arc<Shared>);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.descriptor
    }
}

impl Time {
    /// Starts the task that waits for the backstop, on the current runtime.
    ///
    /// # Errors
    /// No runtime runs here, or the kernel makes no timer.
    ///
    /// # Panics
    /// The runtime was built without I/O (`Builder::enable_io`).
    pub fn start() -> io::Result<Time> {
        let runtime = Runtime::try_current().map_err(io::Error::other)?;
        let backstop = Backstop::new()?;
        let descriptor = backstop.as_raw_fd();
        let state = Mutex::new(State { timers: Timers::new(), backstop, armed_ns: SOFT });
        let (start, start_ns) = moment();
        let shared = Arc::new(Shared { state, descriptor, start, start_ns });
        let watched = Watched(shared.clone());
        // SAFETY: the descriptor is the timerfd of `shared`, which `watched` keeps open, and never another
        // one.
        let watched = unsafe { AsyncFd::register_with_interest(watched, Interest::READABLE) };
        let watched = watched.map_err(|error| error.into_parts().1)?;
        let driver = runtime.spawn(drive(watched));
        Ok(Time(Arc::new(Started { shared, driver })))
    }

    /// Sleeps until a deadline, and at most an overshoot longer. If the deadline has passed, it ends at once.
    /// `Duration::MAX` is infinite: such a sleep ends at a trigger point alone.
    pub fn sleep_until(&self, deadline: Instant, overshoot: Duration) -> Sleep {
        let terms = Terms::firm(self.ns_at(deadline), ns(overshoot));
        Sleep(Wait::new(self, terms))
    }

    /// Sleeps for a time, and at most an overshoot longer.
    pub fn sleep(&self, time: Duration, overshoot: Duration) -> Sleep {
        let terms = Terms::firm(now_ns().saturating_add(ns(time)), ns(overshoot));
        Sleep(Wait::new(self, terms))
    }

    /// Ticks each period, the first time after one period, and each tick at most an overshoot late. Ticks
    /// that were missed follow at once: none is lost.
    ///
    /// # Errors
    /// The period is 0, or shorter than the overshoot; see [`Refused`].
    pub fn interval(&self, period: Duration, overshoot: Duration) -> Result<Interval, Refused> {
        self.interval_from(now_ns().saturating_add(ns(period)), period, overshoot)
    }

    /// As [`interval`](Time::interval), with the first tick at a given time, which may lie in the past.
    ///
    /// # Errors
    /// The errors of [`interval`](Time::interval).
    pub fn interval_at(
        &self,
        first: Instant,
        period: Duration,
        overshoot: Duration,
    ) -> Result<Interval, Refused> {
        self.interval_from(self.ns_at(first), period, overshoot)
    }

    fn interval_from(
        &self,
        first_ns: u64,
        period: Duration,
        overshoot: Duration,
    ) -> Result<Interval, Refused> {
        let (period_ns, terms) = (ns(period), Terms::firm(first_ns, ns(overshoot)));
        terms.every(period_ns).check(first_ns)?;
        Ok(Interval { wait: Wait::new(self, terms), period_ns })
    }

    /// A moment by the clock of the timers, ns. A moment before the start counts as the start.
    fn ns_at(&self, moment: Instant) -> u64 {
        let after_ns = ns(moment.saturating_duration_since(self.0.shared.start));
        self.0.shared.start_ns.saturating_add(after_ns)
    }

    /// A trigger point: wakes all tasks that are due. It may be called from any thread, also
    /// from the runtime's hook `on_thread_unpark`.
    pub fn check(&self) {
        let now_ns = now_ns();
        let is_due = self.0.shared.state().timers.poll(now_ns);
        if is_due {
            self.0.shared.fire(now_ns, Trigger::Check);
        }
    }

    /// The counts since the start.
    pub fn counts(&self) -> Counts {
        self.0.shared.state().timers.counts()
    }
}

/// A time in ns; [`SOFT`], which is infinite, if it does not fit into 64 bits.
fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(SOFT)
}

/// One moment by both clocks: the closest of several readings, since a thread can lose its CPU between two.
fn moment() -> (Instant, u64) {
    let readings = (0..8).map(|_| (Instant::now(), now_ns(), Instant::now()));
    let closest = readings.min_by_key(|&(before, _, after)| after - before);
    closest.map_or_else(|| (Instant::now(), now_ns()), |(before, now_ns, _)| (before, now_ns))
}

/// Wakes the tasks that are due at each expiry of the backstop.
async fn drive(watched: AsyncFd<Watched>) {
    while let Ok(mut ready) = watched.readable().await {
        // The registration is edge-triggered, so the next expiry makes it ready again.
        ready.clear_ready();
        let shared = &watched.get_ref().0;
        shared.state().note_expiry();
        shared.fire(now_ns(), Trigger::Backstop);
        shared.state().arm();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all tasks that are due. The lock is not held while a task is woken, or a waker
    /// dropped: either may end sleeps, which take it.
    fn fire(&self, now_ns: u64, trigger: Trigger) {
        loop {
            let fired = self.state().timers.take(now_ns, trigger);
            match fired {
                Some(fired) => fired.value.wake(),
                None => return,
            }
        }
    }
}

impl State {
    fn note_expiry(&mut self) {
        self.backstop.note_expiry();
        self.armed_ns = SOFT;
    }

    /// Arms a timer that wakes a task; `None` if the queue is full.
    fn arm_for(&mut self, now_ns: u64, terms: Terms, waker: &Waker) -> Option<Handle> {
        let armed = self.timers.arm(now_ns, terms, waker.clone());
        if terms.limit_ns() < self.armed_ns {
            self.arm();
        }
        armed.ok()
    }

    /// Arms the backstop if it must expire earlier than it is armed for. It is not moved to a later time, as
    /// that would cost a system call for each check that wakes a task. So it may expire for a sleep that has
    /// ended already, at most once in an overshoot.
    fn arm(&mut self) {
        let Some(limit_ns) = self.timers.backstop_ns().filter(|&limit_ns| limit_ns < self.armed_ns) else {
            return;
        };
        // Arming fails for no valid timerfd, and this one is valid.
        if self.backstop.arm(Some(limit_ns)).is_ok() {
            self.armed_ns = limit_ns;
        }
    }
}

/// A future that ends when its deadline has passed; made by [`Time::sleep_until`] and [`Time::sleep`].
/// Dropping it cancels the sleep.
#[derive(Debug)]
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep(Wait);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll(context, None).map(drop)
    }
}

/// Ticks each period; made by [`Time::interval`].
#[derive(Debug)]
pub struct Interval {
    wait: Wait,
    period_ns: u64,
}

impl Interval {
    /// Waits for the next tick. Returns how late it is. If the wait is dropped, the tick is not lost.
    pub async fn tick(&mut self) -> Duration {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// As [`tick`](Interval::tick), for a caller that polls. A tick arms the next one unless that is due.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Duration> {
        let deadline_ns = self.wait.terms.deadline_ns;
        let next_ns = deadline_ns.saturating_add(self.period_ns);
        self.wait.poll(context, Some(next_ns)).map(|now_ns| Duration::from_nanos(now_ns - deadline_ns))
    }
}

/// A deadline, and the task that waits for it.
#[derive(Debug)]
struct Wait {
    time: Time,
    terms: Terms,
    /// Names the timer of this deadline, also after it has fired.
    handle: Option<Handle>,
}

impl Wait {
    fn new(time: &Time, terms: Terms) -> Wait {
        Wait { time: time.clone(), terms, handle: None }
    }

    /// Returns the time if the deadline has passed. Then the next deadline is armed, if there is one.
    fn poll(&mut self, context: &mut Context<'_>, next_ns: Option<u64>) -> Poll<u64> {
        let shared = &self.time.0.shared;
        let mut state = shared.state();
        if let Some(armed) = self.handle.and_then(|handle| state.timers.value_mut(handle)) {
            // The timer has not fired, so no clock need be read. The old waker is dropped without the lock.
            let other = (!armed.will_wake(context.waker())).then(|| context.waker().clone());
            let _old = other.map(|waker| std::mem::replace(armed, waker));
            drop(state);
            return Poll::Pending;
        }
        let now_ns = now_ns();
        if self.terms.deadline_ns > now_ns {
            self.handle = state.arm_for(now_ns, self.terms, context.waker());
            drop(state);
            // With more sleeps than a queue can name, a sleep becomes a loop of polls.
            if self.handle.is_none() {
                context.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        drop(state);
        // A task that is always late lets other tasks run from time to time.
        if pin!(coop::cooperative(ready(()))).poll(context).is_pending() {
            return Poll::Pending;
        }
        let mut state = shared.state();
        self.handle = None;
        if let Some(next_ns) = next_ns {
            self.terms.deadline_ns = next_ns;
            if next_ns > now_ns {
                self.handle = state.arm_for(now_ns, self.terms, context.waker());
            }
        }
        let is_due = state.timers.poll(now_ns);
        drop(state);
        if is_due {
            shared.fire(now_ns, Trigger::Check);
        }
        Poll::Ready(now_ns)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            let waker = self.time.0.shared.state().timers.cancel(handle);
            drop(waker);
        }
    }
}
