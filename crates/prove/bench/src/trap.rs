//! Measures the cost of a trap: a system call that does nothing.

use std::hint::black_box;

use spry_sys::clock::monotonic_ns;
use spry_sys::measured::trap;

use crate::error::Result;
use crate::report::Figure;
use crate::session::Session;

/// How many calls a sample has. Reading the clock takes little of the time of so many calls, and other
/// programs seldom run during so few.
const CALLS: u32 = 100;

/// Measures the trap. A sample is the mean time of [`CALLS`] calls, ns.
pub(crate) fn measure(session: &Session<'_>) -> Result<Figure> {
    session.collect(|| {
        session.alone(|| {
            let began_ns = monotonic_ns();
            for _ in 0..CALLS {
                black_box(trap());
            }
            (monotonic_ns() - began_ns) as f64 / f64::from(CALLS)
        })
    })
}
