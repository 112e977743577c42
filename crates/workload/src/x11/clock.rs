//! The monotonic clock in nanoseconds, which all that is measured here is told in.

use std::time::Duration;

use crate::runner::sys;

/// Nanoseconds of `CLOCK_MONOTONIC` now.
#[must_use]
pub fn now_ns() -> u64 {
    sys::now_ns()
}

/// The moment this long from now.
#[must_use]
pub fn after(time: Duration) -> u64 {
    now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2)
}
