//! Words on which threads of several processes wait, and locks that give their holder the priority of the
//! waiting threads.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

/// Sleeps while the word has this value. The sleep also ends when another thread wakes this one, at a signal,
/// and at the time limit.
pub fn wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    // A time limit that is too long for the kernel is no limit.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // Each error is one of the ends of the sleep above.
    _ = futex::wait(word, Flags::empty(), value, limit.as_ref());
}

/// Wakes at most this many threads that wait on the word.
pub fn wake(word: &AtomicU32, at_most: u32) {
    // It fails for no word of this process.
    _ = futex::wake(word, Flags::empty(), at_most);
}

/// Wakes all threads that wait on the word.
pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX.unsigned_abs());
}

/// Takes a lock with priority inheritance. The kernel defines what the lock's word holds: 0, or the number of
/// the thread that has it, and flags.
///
/// # Errors
/// `EINTR` at a signal; otherwise if the word has a value that the kernel did not write.
pub fn lock_inheriting(word: &AtomicU32) -> io::Result<()> {
    Ok(futex::lock_pi(word, Flags::empty(), None)?)
}

/// Gives a lock with priority inheritance, which the calling thread has, to a thread that waits for it.
///
/// # Errors
/// If the calling thread does not hold the lock.
pub fn unlock_inheriting(word: &AtomicU32) -> io::Result<()> {
    Ok(futex::unlock_pi(word, Flags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::process;

    #[test]
    fn a_wait_ends_at_another_value_a_timeout_or_a_wake_up() {
        let word = AtomicU32::new(0);
        wait(&word, 1, None);
        let began = Instant::now();
        wait(&word, 0, Some(Duration::from_millis(5)));
        assert!(began.elapsed() >= Duration::from_millis(5));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 0 {
                    wait(&word, 0, None);
                }
            });
            word.store(1, Ordering::SeqCst);
            wake_all(&word);
            waiting.join().expect("it ends well");
        });
    }

    #[test]
    fn a_lock_that_inherits_is_passed_on() {
        let word = AtomicU32::new(0);
        assert!(unlock_inheriting(&word).is_err());
        lock_inheriting(&word).expect("it is free");
        assert_eq!(word.load(Ordering::SeqCst), process::tid());
        assert!(lock_inheriting(&word).is_err(), "the thread would wait for itself");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                while lock_inheriting(&word).is_err() {}
                unlock_inheriting(&word).expect("it has it");
            });
            thread::sleep(Duration::from_millis(5));
            unlock_inheriting(&word).expect("it has it");
            waiting.join().expect("it ends well");
        });
        assert_eq!(word.load(Ordering::SeqCst), 0);
    }
}
