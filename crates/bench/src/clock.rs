//! How many cycles a nanosecond has.

use crate::sys;

/// How long the counters are held against each other, ns: they agree to a few parts in a million then.
#[cfg(target_arch = "x86_64")]
const COMPARED_NS: u64 = 50_000_000;

/// Cycles a nanosecond, as the processor's time stamp counter counts them: at its nominal rate, whatever the clock's is just now.
/// `None` where a processor has no such counter.
#[cfg(target_arch = "x86_64")]
pub(crate) fn cycles_per_ns() -> Option<f64> {
    let (began_ns, first) = reading();
    while sys::now_ns() - began_ns < COMPARED_NS {}
    let (ended_ns, last) = reading();
    Some(last.checked_sub(first)? as f64 / (ended_ns - began_ns) as f64)
}

/// Both counters at one time, ns and cycles: of several readings the one that took least, since anything may come between.
#[cfg(target_arch = "x86_64")]
fn reading() -> (u64, u64) {
    const READINGS: u32 = 50;
    let one = |_| {
        let before_ns = sys::now_ns();
        // SAFETY: every processor of this architecture has the counter.
        let cycles = unsafe { std::arch::x86_64::_rdtsc() };
        let after_ns = sys::now_ns();
        (after_ns - before_ns, before_ns.midpoint(after_ns), cycles)
    };
    let best = (0..READINGS).map(one).min().unwrap_or_default();
    (best.1, best.2)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cycles_per_ns() -> Option<f64> {
    None
}

/// How long a loop takes from one reading of the clock to the next, ns: the median.
pub(crate) fn step_ns() -> u64 {
    let mut steps: Vec<u64> = Vec::with_capacity(10_000);
    let mut before = sys::now_ns();
    while steps.len() < steps.capacity() {
        let now = sys::now_ns();
        steps.push(now - before);
        before = now;
    }
    steps.sort_unstable();
    steps[steps.len() / 2]
}
