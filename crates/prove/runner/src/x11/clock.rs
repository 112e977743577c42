//! The monotonic clock in nanoseconds. The observers of X displays give all their times by this clock.

use std::time::Duration;

use spry_sys::clock;

/// The present time of `CLOCK_MONOTONIC`, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    clock::monotonic_ns()
}

/// The moment this long from now.
#[must_use]
pub fn after(time: Duration) -> u64 {
    now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}
