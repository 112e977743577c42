//! Memory that the crew and the processes of one load share. It holds the progress of the load.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use spry_sys::{Signal, memory, signal};

/// The shared memory: whether the load's preparations are over, and how many operations it has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board(&'static [AtomicU64]);

const IS_RUNNING: usize = 0;
const DONE: usize = 1;
const WORDS: usize = 2;

impl Board {
    /// Makes memory that children share if they are forked later.
    pub(crate) fn new() -> io::Result<Self> {
        memory::shared(WORDS).map(Self)
    }

    /// Reports to the crew that the load's preparations are over.
    pub(crate) fn begin(&self) {
        self.0[IS_RUNNING].store(1, Ordering::Release);
        // The first process of these namespaces is the crew; it reads this signal from a descriptor.
        _ = signal::send(1, Signal::USR1);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.0[IS_RUNNING].load(Ordering::Acquire) != 0
    }

    /// Counts one more operation of the load.
    pub(crate) fn count(&self) {
        self.0[DONE].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) -> u64 {
        self.0[DONE].load(Ordering::Relaxed)
    }
}
