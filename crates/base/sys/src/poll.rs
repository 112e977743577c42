//! Waits for descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, eventfd, poll};
pub use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// The request to wait until a descriptor can be read.
#[must_use]
pub fn readable<'fd>(descriptor: &'fd impl AsFd) -> PollFd<'fd> {
    PollFd::new(descriptor, PollFlags::IN)
}

/// The request to wait until a descriptor can be read, for a borrowed descriptor.
#[must_use]
pub fn readable_of(descriptor: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(descriptor, PollFlags::IN)
}

/// Waits until one of the descriptors has its event, for `at_most` if that is given. Returns how many
/// descriptors have their event: 0 if the time is up or a signal came.
///
/// # Errors
/// If the kernel has no memory for it.
pub fn wait(polls: &mut [PollFd<'_>], at_most: Option<Duration>) -> io::Result<usize> {
    polls.iter_mut().for_each(PollFd::clear_revents);
    // A time that is too long for the kernel is no limit.
    let time = at_most.and_then(|time| Timespec::try_from(time).ok());
    match poll(polls, time.as_ref()) {
        Err(Errno::INTR) => Ok(0),
        done => Ok(done?),
    }
}

/// Waits until a descriptor can be read or is closed, for at most this time. Returns for each descriptor
/// whether it can be read or is closed.
pub fn any<const N: usize>(descriptors: [BorrowedFd<'_>; N], at_most: Duration) -> [bool; N] {
    let mut polls = descriptors.map(readable_of);
    _ = wait(&mut polls, Some(at_most));
    polls.map(|poll| !poll.revents().is_empty())
}

/// Whether a descriptor can be read now, or is closed.
pub fn is_ready(descriptor: impl AsFd) -> bool {
    any([descriptor.as_fd()], Duration::ZERO)[0]
}

/// Whether the reading end of a pipe is closed; this is its writing end.
pub fn is_unheard(pipe: BorrowedFd<'_>) -> bool {
    let mut polls = [PollFd::from_borrowed_fd(pipe, PollFlags::empty())];
    _ = wait(&mut polls, Some(Duration::ZERO));
    polls[0].revents().contains(PollFlags::ERR)
}

/// Wakes a thread that waits. It is an eventfd, to which all threads that share it may write.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// A waker that has woken no thread yet.
    ///
    /// # Errors
    /// If the process can have no further descriptor.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wakes the thread that waits, or that waits next. Any thread may call this. Several calls before the
    /// thread waits have the effect of one.
    pub fn wake(&self) {
        // The write fails only when the counter is full, and then the thread wakes anyway.
        _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes back the wake-ups. Returns whether there was one since the last call.
    pub fn clear(&self) -> bool {
        // The read fails only when there was no wake-up.
        rustix::io::read(&self.0, &mut [0_u8; 8]) == Ok(8)
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::pipe;

    #[test]
    fn a_waker_has_woken_once_however_often_it_was_asked_to() {
        let waker = Waker::new().unwrap();
        assert!(!waker.clear());
        waker.wake();
        waker.wake();
        assert!(waker.clear() && !waker.clear());
    }

    #[test]
    fn waiting_ends_with_the_time_or_with_what_can_be_read() {
        let ((idle, _kept), (from, to)) = (pipe().unwrap(), pipe().unwrap());
        let began = Instant::now();
        assert_eq!(any([idle.as_fd(), from.as_fd()], Duration::from_millis(5)), [false, false]);
        assert!(began.elapsed() >= Duration::from_millis(5));
        rustix::io::write(&to, b"x").unwrap();
        assert_eq!(any([idle.as_fd(), from.as_fd()], Duration::MAX), [false, true]);
        let mut polls = [readable(&idle), readable(&from)];
        assert_eq!(wait(&mut polls, None).unwrap(), 1);
        assert_eq!(polls[1].revents(), PollFlags::IN);
        assert!(is_ready(&from) && !is_ready(&idle));
    }

    #[test]
    fn a_pipe_without_a_reader_is_unheard() {
        let (from, to) = pipe().unwrap();
        assert!(!is_unheard(to.as_fd()));
        drop(from);
        assert!(is_unheard(to.as_fd()));
    }
}
