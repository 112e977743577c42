//! The memory that the runner shares with its tasks' processes: the start and the stop of the run, the
//! threads, and the objects on which tasks wait. All of it is made before the first process is forked.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use spry_sys::{Signal, clock, memory, signal};

use crate::RunError;

/// The run has not begun.
pub(crate) const WAITING: u32 = 0;
/// The run has begun.
pub(crate) const GO: u32 = 1;
/// The run was given up before it began.
pub(crate) const ABORT: u32 = 2;

/// The greatest number of threads that the runner can interrupt at the end of a run.
const THREADS_MAX: usize = 16384;
/// The greatest number of keys of a pipe or socket that were typed and are not answered yet.
const STAMPS: usize = 256;
/// The number of words for the run, and for each object: a cache line, so that no two objects share one.
const WORDS: usize = 16;
/// The number of times for the run, and for each object, in whole cache lines.
const TIMES: usize = STAMPS + 8;

/// The state that the runner and all processes of its run share. Its numbers are in shared memory.
pub(crate) struct Control {
    /// `WAITING`, `GO` or `ABORT`. Threads wait at the start line until this value changes.
    pub go: &'static AtomicU32,
    /// 0 until all threads are to end, then another value.
    pub stop: &'static AtomicU32,
    /// How many threads are at the start line. The runner waits until all threads are.
    pub ready: &'static AtomicU32,
    /// The start of the run, ns of the monotonic clock.
    pub t0_ns: &'static AtomicU64,
    /// The end of the run, ns of the monotonic clock.
    pub end_ns: &'static AtomicU64,
    threads: &'static AtomicU32,
    /// Two numbers per thread: its process id (`tgid`) and its thread id (`tid`).
    ids: &'static [AtomicU32],
    objects: Vec<Shared>,
}

/// A pipe or a pair of sockets: bytes that are written to one end are read from the other.
pub(crate) struct Channel {
    pub from: OwnedFd,
    pub to: OwnedFd,
}

/// An object that tasks wait on or share. The kind of the object decides which of the fields are used.
pub(crate) struct Shared {
    /// Counter, lock, condition and barrier: the word on which threads wait.
    pub word: &'static AtomicU32,
    /// Barrier: the number of threads that have arrived. A lock does not use it.
    pub come: &'static AtomicU32,
    /// Timer: the time at which the timer last went off, ns.
    pub time_ns: &'static AtomicU64,
    /// Pipe and socket: the two ends.
    pub channel: Option<Channel>,
    stamps: &'static [AtomicU64],
    first: &'static AtomicU32,
    last: &'static AtomicU32,
}

impl Control {
    /// Makes the shared state of a run, with an object for each of `channels`; `None`: it has no channel.
    pub(crate) fn new(channels: Vec<Option<Channel>>) -> Result<&'static Self, RunError> {
        let failed = |error| RunError::Failed(format!("no shared memory: {error}"));
        let parts = channels.len() + 1;
        let words: &'static [AtomicU32] = memory::shared(parts * WORDS).map_err(failed)?;
        let times: &'static [AtomicU64] = memory::shared(parts * TIMES).map_err(failed)?;
        let object = |(at, channel)| Shared::new(&words[at * WORDS..], &times[at * TIMES..], channel);
        // The value exists until the process ends, as the memory does.
        Ok(Box::leak(Box::new(Self {
            go: &words[0],
            stop: &words[1],
            ready: &words[2],
            threads: &words[3],
            t0_ns: &times[0],
            end_ns: &times[1],
            ids: memory::shared(2 * THREADS_MAX).map_err(failed)?,
            objects: (1..).zip(channels).map(object).collect(),
        })))
    }

    /// The shared object with this index.
    pub(crate) fn shared(&self, index: usize) -> &Shared {
        &self.objects[index]
    }

    /// Whether the run is over or was stopped.
    pub(crate) fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
            || (self.go.load(Ordering::Relaxed) == GO
                && clock::monotonic_ns() >= self.end_ns.load(Ordering::Relaxed))
    }

    /// Notes the number of a thread, so that the runner can interrupt the thread at the end.
    pub(crate) fn register_thread(&self, tid: u32) {
        let at = self.threads.fetch_add(1, Ordering::SeqCst) as usize;
        if let Some([tgid_slot, tid_slot]) = self.ids.get(2 * at..2 * at + 2) {
            tgid_slot.store(std::process::id(), Ordering::SeqCst);
            tid_slot.store(tid, Ordering::SeqCst);
        }
    }

    /// Sends a signal to every noted thread, which interrupts the system call in which the thread waits.
    pub(crate) fn interrupt_threads(&self) {
        let count = (self.threads.load(Ordering::SeqCst) as usize).min(THREADS_MAX);
        for ids in self.ids[..2 * count].chunks_exact(2) {
            let (tgid, tid) = (ids[0].load(Ordering::SeqCst), ids[1].load(Ordering::SeqCst));
            if tid != 0 {
                // If the thread has exited, there is nothing to interrupt.
                let _ = signal::send_thread(tgid, tid, Signal::USR1);
            }
        }
    }
}

impl Shared {
    /// An object in the first of these words and times.
    fn new(words: &'static [AtomicU32], times: &'static [AtomicU64], channel: Option<Channel>) -> Self {
        Self {
            word: &words[0],
            come: &words[1],
            first: &words[2],
            last: &words[3],
            time_ns: &times[0],
            stamps: &times[TIMES - STAMPS..TIMES],
            channel,
        }
    }

    /// Keeps the time at which a key was due.
    pub(crate) fn push_stamp(&self, ns: u64) {
        let at = self.last.fetch_add(1, Ordering::SeqCst) as usize;
        self.stamps[at % STAMPS].store(ns, Ordering::SeqCst);
    }

    /// Takes the due time of the oldest key that was not answered yet; `None` if there is none.
    pub(crate) fn pop_stamp(&self) -> Option<u64> {
        let first = self.first.load(Ordering::SeqCst);
        if first == self.last.load(Ordering::SeqCst) {
            return None;
        }
        self.first.store(first.wrapping_add(1), Ordering::SeqCst);
        Some(self.stamps[first as usize % STAMPS].load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_share_no_words() {
        let control = Control::new(vec![None, None]).expect("memory");
        let (one, other) = (control.shared(0), control.shared(1));
        for at in 0..STAMPS as u64 {
            one.push_stamp(at);
            other.push_stamp(1000 + at);
        }
        one.word.store(7, Ordering::SeqCst);
        one.come.store(8, Ordering::SeqCst);
        one.time_ns.store(9, Ordering::SeqCst);
        assert_eq!((other.word.load(Ordering::SeqCst), other.come.load(Ordering::SeqCst)), (0, 0));
        assert_eq!(other.time_ns.load(Ordering::SeqCst), 0);
        for at in 0..STAMPS as u64 {
            assert_eq!((one.pop_stamp(), other.pop_stamp()), (Some(at), Some(1000 + at)));
        }
        assert_eq!((one.pop_stamp(), other.pop_stamp()), (None, None));
        assert_eq!(control.go.load(Ordering::SeqCst), WAITING);
        assert!(!control.over());
        control.register_thread(spry_sys::process::tid());
        assert_eq!(control.ids[0].load(Ordering::SeqCst), std::process::id());
    }
}
