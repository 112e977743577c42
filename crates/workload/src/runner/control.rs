//! The memory that the runner shares with its tasks' processes: start, stop, threads, and what tasks wait on.

use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::RunError;
use super::sys;

/// Nothing has begun.
pub(crate) const WAITING: u32 = 0;
/// The run has begun.
pub(crate) const GO: u32 = 1;
/// There will be no run.
pub(crate) const ABORT: u32 = 2;

/// Threads that the runner can interrupt at the end.
const THREADS_MAX: usize = 16384;
/// Keys on their way through a channel.
const STAMPS: usize = 256;

/// What all processes of a run share.
pub(crate) struct Control {
    /// `WAITING`, `GO` or `ABORT`; threads wait on it.
    pub go: AtomicU32,
    /// Other than 0: all end.
    pub stop: AtomicU32,
    /// Threads at the start line; the runner waits on it.
    pub ready: AtomicU32,
    /// When the run begins, ns.
    pub t0_ns: AtomicU64,
    /// When it ends, ns.
    pub end_ns: AtomicU64,
    threads: AtomicU32,
    ids: [(AtomicI32, AtomicI32); THREADS_MAX],
    shared: AtomicPtr<Shared>,
    shared_count: AtomicUsize,
}

/// What tasks wait on or share; which fields count depends on its kind.
pub(crate) struct Shared {
    /// Counter, lock, condition, barrier: what is waited on.
    pub word: AtomicU32,
    /// Barrier: how many have come. Lock: unused.
    pub come: AtomicU32,
    /// Timer: when it last went off, ns.
    pub time_ns: AtomicU64,
    /// Pipe or socket: read end, write end.
    pub ends: [AtomicI32; 2],
    stamps: [AtomicU64; STAMPS],
    first: AtomicU32,
    last: AtomicU32,
}

impl Control {
    /// Makes one, with so many shared objects.
    pub(crate) fn new(objects: usize) -> Result<&'static Self, RunError> {
        let failed = |error| RunError::Failed(format!("no shared memory: {error}"));
        let at = sys::shared_memory(size_of::<Self>()).map_err(failed)?.cast::<Self>();
        let shared = sys::shared_memory((size_of::<Shared>() * objects).max(1)).map_err(failed)?;
        // SAFETY: the memory is of this size, aligned to a page, never given back, and zeros are a valid value of every
        // field; nobody else knows it yet.
        let control = unsafe { &*at };
        control.shared.store(shared.cast(), Ordering::SeqCst);
        control.shared_count.store(objects, Ordering::SeqCst);
        Ok(control)
    }

    /// A shared object by index.
    pub(crate) fn shared(&self, index: usize) -> &'static Shared {
        assert!(index < self.shared_count.load(Ordering::Relaxed), "no such object");
        // SAFETY: the index is within the memory, which is never given back; zeros are a valid value.
        unsafe { &*self.shared.load(Ordering::Relaxed).add(index) }
    }

    /// Whether the run is over or was stopped.
    pub(crate) fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) != 0
            || (self.go.load(Ordering::Relaxed) == GO && sys::now_ns() >= self.end_ns.load(Ordering::Relaxed))
    }

    /// Notes a thread, so that it can be interrupted.
    pub(crate) fn register_thread(&self, tid: i32) {
        let at = self.threads.fetch_add(1, Ordering::SeqCst) as usize;
        if let Some((tgid_slot, tid_slot)) = self.ids.get(at) {
            tgid_slot.store(std::process::id() as i32, Ordering::SeqCst);
            tid_slot.store(tid, Ordering::SeqCst);
        }
    }

    /// Interrupts what every noted thread waits in.
    pub(crate) fn interrupt_threads(&self) {
        let count = (self.threads.load(Ordering::SeqCst) as usize).min(THREADS_MAX);
        for (tgid, tid) in &self.ids[..count] {
            let (tgid, tid) = (tgid.load(Ordering::SeqCst), tid.load(Ordering::SeqCst));
            if tid != 0 {
                sys::signal_thread(tgid, tid, libc::SIGUSR1);
            }
        }
    }
}

impl Shared {
    /// Keeps the time when a key was due.
    pub(crate) fn push_stamp(&self, ns: u64) {
        let at = self.last.fetch_add(1, Ordering::SeqCst) as usize;
        self.stamps[at % STAMPS].store(ns, Ordering::SeqCst);
    }

    /// The time of the oldest key that was not taken yet.
    pub(crate) fn pop_stamp(&self) -> Option<u64> {
        let first = self.first.load(Ordering::SeqCst);
        if first == self.last.load(Ordering::SeqCst) {
            return None;
        }
        self.first.store(first.wrapping_add(1), Ordering::SeqCst);
        Some(self.stamps[first as usize % STAMPS].load(Ordering::SeqCst))
    }
}
