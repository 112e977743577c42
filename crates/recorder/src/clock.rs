//! The clocks that the recorder reads.

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_THREAD_CPUTIME_ID, clockid_t, timespec};

fn read(clock: clockid_t) -> Option<u64> {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The clock of the time stamps, ns.
pub(crate) fn monotonic_ns() -> u64 {
    read(CLOCK_MONOTONIC).expect("every Linux has CLOCK_MONOTONIC")
}

/// Wall-clock time, ns since the UNIX epoch.
pub(crate) fn unix_ns() -> u64 {
    read(CLOCK_REALTIME).expect("every Linux has CLOCK_REALTIME")
}

/// CPU time that this thread has used, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}
