//! The backstop as an event source of mio.

use std::io;
use std::os::fd::AsRawFd;

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use crate::Backstop;

/// Register it with [`Interest::READABLE`]. mio's registrations are edge-triggered, as the backstop needs.
///
/// ```
/// use mio::{Events, Interest, Poll, Token};
/// use spry_timer::{Backstop, Terms, Timers, Trigger, now_ns};
///
/// const BACKSTOP: Token = Token(0);
/// let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(64));
/// let (mut timers, mut backstop) = (Timers::new(), Backstop::new()?);
/// poll.registry().register(&mut backstop, BACKSTOP, Interest::READABLE)?;
/// let now = now_ns();
/// timers.arm(now, Terms::firm(now + 300_000, 50_000), "request 7")?;
///
/// let mut ended = Vec::new();
/// while ended.is_empty() {
///     backstop.arm(timers.backstop_ns())?;
///     poll.poll(&mut events, None)?;
///     let mut trigger = Trigger::Check;
///     for event in &events {
///         match event.token() {
///             BACKSTOP => {
///                 backstop.note_expiry();
///                 trigger = Trigger::Backstop;
///             }
///             _token => {} // Work; then a trigger point, if `timers.wants_check()`.
///         }
///     }
///     let now = now_ns();
///     while let Some(fired) = timers.take(now, trigger) {
///         ended.push(fired.value);
///     }
/// }
/// assert_eq!(ended, ["request 7"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Source for Backstop {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).deregister(registry)
    }
}
