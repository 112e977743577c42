//! Memory that the crew and the processes of one load share: how far it has come.

use std::io;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is shared.
#[derive(Debug, Default)]
#[repr(C)]
struct Figures {
    is_running: AtomicU32,
    done: AtomicU64,
}

/// The shared memory; it stays for as long as one of its processes lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board(NonNull<Figures>);

impl Board {
    /// Memory that later children will share.
    pub(crate) fn new() -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of nothing that exists already.
        let place = unsafe { libc::mmap(ptr::null_mut(), mem::size_of::<Figures>(), access, kind, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(place.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    fn figures(&self) -> &Figures {
        // SAFETY: the mapping is never removed, is aligned to a page, and all zeroes is a value of it.
        unsafe { self.0.as_ref() }
    }

    /// Says that preparations are over.
    pub(crate) fn begin(&self) {
        self.figures().is_running.store(1, Ordering::Release);
        // SAFETY: the first process of these namespaces is the crew; it reads this signal from a descriptor.
        unsafe { libc::kill(1, libc::SIGUSR1) };
    }

    pub(crate) fn is_running(&self) -> bool {
        self.figures().is_running.load(Ordering::Acquire) != 0
    }

    /// Counts one more piece of work.
    pub(crate) fn count(&self) {
        self.figures().done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) -> u64 {
        self.figures().done.load(Ordering::Relaxed)
    }
}
