//! The papers' display server. It works for 9 ms of wall time from just after each tick of a 100 Hz clock.
//!
//! usage: display-server SECONDS
//!
//! Etsion, Tsafrir, Feitelson 2003, section 4: such a task runs nine tenths of the time, and a kernel that
//! samples at each tick bills it for almost none of it. The ticks are the multiples of 10 ms of the
//! monotonic clock.

use std::env;
use std::hint;

use spry_sys::clock::{monotonic_ns, sleep_until};

const PERIOD_NS: u64 = 10_000_000;
/// The task waits for this time after a tick: long enough that the tick's handler has run, and short enough
/// that 9 ms of work end before the next tick.
const AFTER_TICK_NS: u64 = 150_000;
const WORK_NS: u64 = 9_000_000;

fn main() {
    let seconds: u64 =
        env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: display-server SECONDS");
    let end = monotonic_ns() + seconds * 1_000_000_000;
    while monotonic_ns() < end {
        let wake = (monotonic_ns() / PERIOD_NS + 1) * PERIOD_NS + AFTER_TICK_NS;
        sleep_until(wake);
        // The work ends at a time of the clock, not after an amount of time: a late start must not move its
        // end past the next tick.
        while monotonic_ns() < wake + WORK_NS {
            hint::spin_loop();
        }
    }
}
