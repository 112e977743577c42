//! Measures how many cycles of the processor a nanosecond has.

use spry_sys::clock::monotonic_ns;
use spry_sys::measured::cycles;

/// How long the two counters are compared, ns. In this time the error is a few parts in a million.
const COMPARED_NS: u64 = 50_000_000;

/// The number of cycles per nanosecond, as the processor's time stamp counter counts them. The counter
/// has the nominal rate, even if the processor's clock has another rate now. `None` if the processor has
/// no such counter.
pub(crate) fn cycles_per_ns() -> Option<f64> {
    let (began_ns, first) = reading();
    while monotonic_ns() - began_ns < COMPARED_NS {}
    let (ended_ns, last) = reading();
    Some(last?.checked_sub(first?)? as f64 / (ended_ns - began_ns) as f64)
}

/// Reads both counters at the same time, in ns and in cycles. It reads several times and takes the quickest
/// reading, since an interrupt may come between the two counters.
fn reading() -> (u64, Option<u64>) {
    const READINGS: u32 = 50;
    let one = |_| {
        let before_ns = monotonic_ns();
        let cycles = cycles();
        let after_ns = monotonic_ns();
        (after_ns - before_ns, before_ns.midpoint(after_ns), cycles)
    };
    let best = (0..READINGS).map(one).min().unwrap_or_default();
    (best.1, best.2)
}

/// The median time from one reading of the clock to the next in a loop, ns.
pub(crate) fn step_ns() -> u64 {
    let mut steps: Vec<u64> = Vec::with_capacity(10_000);
    let mut before = monotonic_ns();
    while steps.len() < steps.capacity() {
        let now = monotonic_ns();
        steps.push(now - before);
        before = now;
    }
    steps.sort_unstable();
    steps[steps.len() / 2]
}
