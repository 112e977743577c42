//! Locks, conditions, counters and barriers in memory that processes share, whose waits end with the run.

use std::sync::atomic::{AtomicU32, Ordering};

use super::control::Shared;
use super::sys;
use crate::scenario::model::Scenario;
use crate::scenario::program::{ObjectId, ObjectKind};

/// Takes a lock; without it if the run ends meanwhile.
pub(super) fn lock(scenario: &Scenario, object: ObjectId, shared: &Shared, over: &dyn Fn() -> bool) {
    let word = &shared.word;
    if scenario.objects[object].kind == ObjectKind::InheritingLock {
        let tid = sys::tid() as u32;
        while word.compare_exchange(0, tid, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            if sys::futex_lock_inheriting(word).is_ok() || over() {
                return;
            }
        }
        return;
    }
    // 0: free; 1: taken; 2: taken, and somebody may wait (Drepper, "Futexes are tricky").
    if word.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        return;
    }
    while word.swap(2, Ordering::SeqCst) != 0 {
        if over() {
            return;
        }
        sys::futex_wait(word, 2, None);
    }
}

/// Gives a lock back.
pub(super) fn unlock(scenario: &Scenario, object: ObjectId, shared: &Shared) {
    let word = &shared.word;
    if scenario.objects[object].kind == ObjectKind::InheritingLock {
        let tid = sys::tid() as u32;
        if word.compare_exchange(tid, 0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            sys::futex_unlock_inheriting(word);
        }
    } else if word.swap(0, Ordering::SeqCst) == 2 {
        sys::futex_wake(word, 1);
    }
}

/// Wakes up to so many that wait for a change.
pub(super) fn signal(shared: &Shared, count: i32) {
    shared.word.fetch_add(1, Ordering::SeqCst);
    sys::futex_wake(&shared.word, count);
}

/// Waits until a word is another than it is now, or the run ends.
pub(super) fn wait_change(word: &AtomicU32, over: &dyn Fn() -> bool) {
    let seen = word.load(Ordering::SeqCst);
    while word.load(Ordering::SeqCst) == seen && !over() {
        sys::futex_wait(word, seen, None);
    }
}

/// Waits for a count of 1 or more and takes 1 from it, or for the end of the run.
pub(super) fn take_count(word: &AtomicU32, over: &dyn Fn() -> bool) {
    loop {
        let count = word.load(Ordering::SeqCst);
        if count == 0 {
            if over() {
                return;
            }
            sys::futex_wait(word, 0, None);
        } else if word.compare_exchange(count, count - 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return;
        }
    }
}

/// Waits until all have come, or for the end of the run.
pub(super) fn barrier(scenario: &Scenario, object: ObjectId, shared: &Shared, over: &dyn Fn() -> bool) {
    let ObjectKind::Barrier(parties) = scenario.objects[object].kind else { return };
    let generation = shared.word.load(Ordering::SeqCst);
    if shared.come.fetch_add(1, Ordering::SeqCst) + 1 >= parties {
        shared.come.store(0, Ordering::SeqCst);
        signal(shared, i32::MAX);
        return;
    }
    while shared.word.load(Ordering::SeqCst) == generation && !over() {
        sys::futex_wait(&shared.word, generation, None);
    }
}
