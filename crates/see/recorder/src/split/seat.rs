//! The seats of sampler threads: memory that a thread and the programs write in turns.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{io, mem};

use spry_sys::clock;

use crate::error::{Error, Result, system};
use crate::ring::Mapping;
use crate::wire::{SPRY_SEATS, spry_seat};

/// The seats of all sampler threads.
pub(super) struct Seats(Mapping);

impl Seats {
    pub(super) fn new(map: BorrowedFd<'_>) -> Result<Seats> {
        let bytes = SPRY_SEATS as usize * size_of::<spry_seat>();
        Mapping::new(map, 0, bytes, libc::PROT_READ | libc::PROT_WRITE)
            .map(Seats)
            .map_err(system("mapping the samplers' seats"))
    }

    fn tid(&self, place: usize) -> &AtomicU32 {
        let at = self.0.at::<spry_seat>(place * size_of::<spry_seat>());
        // SAFETY: the field is inside the mapping and aligned; on this side it is only accessed atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*at).tid) }
    }

    fn word(&self, place: usize, offset: usize) -> &AtomicU64 {
        self.0.word(place * size_of::<spry_seat>() + offset)
    }
}

/// The times of a thread's latest wake-up, ns of this process' `CLOCK_MONOTONIC`; 0 is a time
/// that was not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WakeTimes {
    /// The latest interrupt's entry on the CPU that woke the thread.
    pub irq_ns: u64,
    /// The wake-up of the thread, at which its CPU was asked to reschedule.
    pub resched_ns: u64,
    /// The entry of the `schedule()` that chose the thread; where that cannot be seen, the
    /// switch to the thread.
    pub schedule_ns: u64,
    /// The switch to the thread.
    pub switch_ns: u64,
}

/// One thread's seat.
pub struct Seat {
    seats: Arc<Seats>,
    place: usize,
}

impl Seat {
    /// Takes the calling thread's seat; fails if another thread has it.
    pub(super) fn take(seats: &Arc<Seats>) -> Result<Seat> {
        let tid = spry_sys::process::tid();
        let place = (tid % SPRY_SEATS) as usize;
        let taken = seats.tid(place).compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed);
        taken.map_err(|_| Error::System {
            what: "finding a seat for a sampler",
            source: io::Error::from_raw_os_error(libc::EBUSY),
        })?;
        let seat = Seat { seats: Arc::clone(seats), place };
        seat.expect(0);
        Ok(seat)
    }

    /// Sets the time at which the seat's thread is due to run next, ns of this process' `CLOCK_MONOTONIC`; 0
    /// for never. The programs compare it with the kernel's own clock.
    pub fn expect(&self, due_ns: u64) {
        let due_ns = if due_ns == 0 { 0 } else { clock::to_kernel_ns(due_ns) };
        self.seats.word(self.place, mem::offset_of!(spry_seat, due_ns)).store(due_ns, Ordering::Release);
    }

    /// The times of the latest wake-up of the seat's thread.
    pub fn seen(&self) -> WakeTimes {
        let word = |offset| match self.seats.word(self.place, offset).load(Ordering::Acquire) {
            0 => 0,
            kernel_ns => clock::from_kernel_ns(kernel_ns),
        };
        WakeTimes {
            irq_ns: word(mem::offset_of!(spry_seat, irq_ns)),
            resched_ns: word(mem::offset_of!(spry_seat, resched_ns)),
            schedule_ns: word(mem::offset_of!(spry_seat, schedule_ns)),
            switch_ns: word(mem::offset_of!(spry_seat, switch_ns)),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.expect(0);
        self.seats.tid(self.place).store(0, Ordering::Release);
    }
}
