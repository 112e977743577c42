//! Firm timers: each timer has a deadline and an overshoot, which is how late it may fire.
//!
//! The idea is that of Time-Sensitive Linux (Goel and others, "Supporting Time-Sensitive Applications on a
//! Commodity OS", OSDI 2002, sections 3.1 and 4.3.2). A wake-up by the kernel's timer is expensive. A look at
//! the clock is cheap, and a program is often awake just after a deadline anyway. So the program looks for
//! expired timers at *trigger points*, such as the end of a request. The kernel's timer is only a *backstop*:
//! it is armed at the earliest deadline plus overshoot. If trigger points are frequent, it is moved again and
//! again and never expires. If they are rare, no timer is later than its overshoot.
//!
//! - A *hard* timer has an overshoot of 0: the backstop is armed at its deadline.
//! - A *soft* timer has an infinite overshoot ([`SOFT`]): it fires at a trigger point or not at all.
//! - A *firm* timer lies between.
//!
//! [`Timers`] is the queue of one thread. It reads no clock, makes no system call and starts no thread: each
//! call takes the time as an argument, in nanoseconds of any clock that does not go back.
//!
//! ```
//! use spry_timer::{Terms, Timers, Trigger};
//!
//! let mut timers = Timers::new();
//! let now_ns = 1_000_000;
//! // Due in 50 us, and at most 20 us late.
//! timers.arm(now_ns, Terms::firm(1_050_000, 20_000), "firm")?;
//! let hard = timers.arm(now_ns, Terms::hard(3_000_000), "hard")?;
//! // Every 10 ms, each time at most 1 ms late.
//! timers.arm(now_ns, Terms::firm(11_000_000, 1_000_000).every(10_000_000), "tick")?;
//!
//! // Before the program sleeps, it arms the kernel's timer here.
//! assert_eq!(timers.backstop_ns(), Some(1_070_000));
//!
//! // A trigger point at which nothing is due costs one comparison.
//! assert!(!timers.poll(1_049_999));
//!
//! // A trigger point between the deadline and the backstop: the kernel's timer is not needed.
//! let now_ns = 1_052_000;
//! assert!(timers.poll(now_ns));
//! let fired = timers.take(now_ns, Trigger::Check).expect("it is due");
//! assert_eq!((fired.value, fired.late_ns), ("firm", 2_000));
//! assert!(timers.take(now_ns, Trigger::Check).is_none());
//! assert_eq!(timers.backstop_ns(), Some(3_000_000));
//!
//! assert_eq!(timers.cancel(hard), Some("hard"));
//! assert_eq!(timers.backstop_ns(), Some(12_000_000));
//! assert_eq!(timers.counts().soft, 1);
//! # Ok::<(), spry_timer::Refused>(())
//! ```
//!
//! # Order and cost
//!
//! Timers that are due fire in the order of their deadlines; timers of one deadline fire in the order in
//! which they were armed. A timer that is due within the current period of [`PERIOD_NS`] waits in a heap,
//! which costs O(log n) of the timers in it. A later one waits in a coarse wheel until its last period, or
//! until its limit may be the earliest. So arming it, cancelling it and arming it again are O(1).
//! Cancelling a timer of the heap is O(1) amortised: the heap drops the entry later. When a queue has grown
//! to its size, no call allocates.
//!
//! # Adapters
//!
//! - Feature `epoll`: `Backstop` is a timerfd on the clock of `now_ns`, and `Loop` an epoll loop around it.
//!   By a `Remote`, other threads arm timers on a loop.
//! - Feature `io-uring`: `RingBackstop` waits in a ring of the program, with an absolute time limit.
//! - Feature `mio`: `Backstop` is a source that a `mio::Poll` can wait for.
//! - Feature `tokio`: `tokio::Time` has sleeps and intervals for tasks, in nanoseconds.
//!
//! # When checks do not pay
//!
//! A check costs C_c, a timer that a check fires C_s, a timer that the backstop fires C_h. Checks pay if
//! `N_s / N_c > C_c / (C_h - C_s)` (section 4.3.2), where N_c checks fired N_s timers.
//! [`Timers::wants_check`] applies this rule: it returns whether to read the clock at a trigger point. It
//! leaves checks out while they do not pay.

#[cfg(feature = "epoll")]
mod backstop;
mod checking;
#[cfg(feature = "epoll")]
mod costs;
#[cfg(feature = "epoll")]
mod event_loop;
#[cfg(feature = "epoll")]
mod inbox;
#[cfg(feature = "mio")]
mod mio;
mod queue;
#[cfg(feature = "epoll")]
mod remote;
#[cfg(feature = "io-uring")]
mod ring;
mod slots;
#[cfg(feature = "epoll")]
mod sync;
mod terms;
#[cfg(feature = "tokio")]
pub mod tokio;
mod wheel;

#[cfg(feature = "epoll")]
pub use backstop::{Backstop, now_ns};
pub use checking::{Costs, Counts};
#[cfg(feature = "epoll")]
pub use costs::measure_costs;
#[cfg(feature = "epoll")]
pub use event_loop::{Loop, READABLE, Ready, WRITABLE};
pub use queue::{Fired, Timers, Trigger};
#[cfg(feature = "epoll")]
pub use remote::Remote;
#[cfg(feature = "io-uring")]
pub use ring::{RingBackstop, RingError};
pub use slots::Handle;
pub use terms::{Refused, SOFT, Terms};
pub use wheel::PERIOD_NS;
