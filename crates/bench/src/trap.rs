//! The cost of a trap: a system call that does nothing.

use std::hint::black_box;

use crate::error::Result;
use crate::report::Figure;
use crate::session::Session;
use crate::sys;

/// Calls of a sample: enough that reading the clock costs little of it, few enough that others seldom come between.
const CALLS: u32 = 100;

/// Measures it; a sample is the mean of [`CALLS`] calls, ns.
pub(crate) fn measure(session: &Session<'_>) -> Result<Figure> {
    session.collect(|| {
        session.alone(|| {
            let began_ns = sys::now_ns();
            for _ in 0..CALLS {
                black_box(sys::trap());
            }
            (sys::now_ns() - began_ns) as f64 / f64::from(CALLS)
        })
    })
}
