//! The objects that tasks wait on and share: locks, conditions, counters and barriers in memory that
//! processes share, pipes and sockets, timers. Every wait ends when the run ends.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use spry_scenario::model::Scenario;
use spry_scenario::program::{ObjectId, ObjectKind};
use spry_sys::{futex, measured, process};

use super::Stage;
use crate::control::{Channel, Shared};

/// An object that tasks share, as a task uses it. Each method names the kinds of objects to which it applies.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    stage: &'a Stage,
    kind: ObjectKind,
    shared: &'static Shared,
}

impl Stage {
    /// The object with this index in the scenario.
    pub(crate) fn object(&self, scenario: &Scenario, object: ObjectId) -> Object<'_> {
        let shared = self.control().shared(object);
        Object { stage: self, kind: scenario.objects[object].kind, shared }
    }
}

impl Object<'_> {
    /// The object's kind.
    pub(crate) fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// Takes a lock. Returns without the lock if the run ends first.
    pub(crate) fn lock(&self) {
        let word = self.shared.word;
        if self.kind == ObjectKind::InheritingLock {
            let tid = process::tid();
            while word.compare_exchange(0, tid, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                if futex::lock_inheriting(word).is_ok() || self.stage.over() {
                    return;
                }
            }
            return;
        }
        // 0: free; 1: taken; 2: taken, and a thread may wait (Drepper, "Futexes are tricky").
        if word.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return;
        }
        while word.swap(2, Ordering::SeqCst) != 0 {
            if self.stage.over() {
                return;
            }
            self.stage.wait_on(word, 2);
        }
    }

    /// Releases a lock.
    pub(crate) fn unlock(&self) {
        let word = self.shared.word;
        if self.kind == ObjectKind::InheritingLock {
            let tid = process::tid();
            if word.compare_exchange(tid, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                // The call fails only for a lock that the thread does not hold.
                let _ = futex::unlock_inheriting(word);
            }
        } else if word.swap(0, Ordering::SeqCst) == 2 {
            self.stage.wake_one(word);
        }
    }

    /// Wakes one thread that waits on a condition.
    pub(crate) fn signal(&self) {
        self.change(1);
    }

    /// Wakes all threads that wait on a condition.
    pub(crate) fn broadcast(&self) {
        self.change(u32::MAX >> 1);
    }

    /// Changes the object, and wakes at most this many threads that wait for the change.
    fn change(&self, threads: u32) {
        self.shared.word.fetch_add(1, Ordering::SeqCst);
        futex::wake(self.shared.word, threads);
    }

    /// Waits until a condition is signalled after this call.
    pub(crate) fn wait_signal(&self) {
        self.wait_change(self.shared.word.load(Ordering::SeqCst));
    }

    /// Waits until a condition is signalled, and releases a lock for as long as it waits.
    pub(crate) fn wait_signal_without(&self, lock: Object<'_>) {
        let seen = self.shared.word.load(Ordering::SeqCst);
        lock.unlock();
        self.wait_change(seen);
        lock.lock();
    }

    /// Waits until the object's word has another value.
    fn wait_change(&self, seen: u32) {
        let word: &AtomicU32 = self.shared.word;
        while word.load(Ordering::SeqCst) == seen && !self.stage.over() {
            self.stage.wait_on(word, seen);
        }
    }

    /// Waits until a counter is 1 or more, and takes 1 from it.
    pub(crate) fn take_count(&self) {
        let word = self.shared.word;
        loop {
            let count = word.load(Ordering::SeqCst);
            if count == 0 {
                if self.stage.over() {
                    return;
                }
                self.stage.wait_on(word, 0);
            } else if word.compare_exchange(count, count - 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }

    /// Adds 1 to a counter, and wakes one thread that waits for this.
    pub(crate) fn add_count(&self) {
        self.change(1);
    }

    /// Waits until all threads of a barrier have arrived.
    pub(crate) fn meet(&self) {
        let ObjectKind::Barrier(parties) = self.kind else { return };
        let generation = self.shared.word.load(Ordering::SeqCst);
        if self.shared.come.fetch_add(1, Ordering::SeqCst) + 1 >= parties {
            self.shared.come.store(0, Ordering::SeqCst);
            self.broadcast();
        } else {
            self.wait_change(generation);
        }
    }

    fn channel(&self) -> io::Result<&Channel> {
        self.shared.channel.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Reads the bytes that have come through a pipe or socket, and waits for the first if there are none.
    /// Fails with `EINTR` at a signal.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        measured::read(self.channel()?.from.as_fd(), buffer)
    }

    /// Writes as many bytes as fit into a pipe or socket, and waits until at least one byte fits. Fails with
    /// `EINTR` at a signal.
    pub(crate) fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        measured::write(self.channel()?.to.as_fd(), buffer)
    }

    /// Keeps the time at which a key that goes through a pipe or socket was due, ns.
    pub(crate) fn push_stamp(&self, ns: u64) {
        self.shared.push_stamp(ns);
    }

    /// Takes the due time of the oldest key that was not answered yet, ns; `None` if there is none.
    pub(crate) fn pop_stamp(&self) -> Option<u64> {
        self.shared.pop_stamp()
    }

    /// The time at which a timer last went off, ns; `None` if it never did.
    pub(crate) fn went_off_ns(&self) -> Option<u64> {
        Some(self.shared.time_ns.load(Ordering::SeqCst)).filter(|&ns| ns > 0)
    }

    /// Sets the time at which a timer goes off, ns.
    pub(crate) fn goes_off_at(&self, ns: u64) {
        self.shared.time_ns.store(ns, Ordering::SeqCst);
    }
}
