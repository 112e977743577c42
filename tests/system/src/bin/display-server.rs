//! The papers' display server: works for 9 ms of wall time from just after each tick of a 100 Hz clock.
//!
//! usage: display-server SECONDS
//!
//! Etsion, Tsafrir, Feitelson 2003, section 4: such a task runs nine tenths of the time, and a kernel that samples
//! at each tick bills it for next to none. The ticks are the multiples of 10 ms of the monotonic clock.

use std::env;
use std::hint;
use std::mem::MaybeUninit;
use std::ptr;

const PERIOD_NS: u64 = 10_000_000;
/// Far enough behind the tick that its handler has run, near enough that 9 ms of work end before the next.
const AFTER_TICK_NS: u64 = 150_000;
const WORK_NS: u64 = 9_000_000;

fn main() {
    let seconds: u64 =
        env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: display-server SECONDS");
    let end = now_ns() + seconds * 1_000_000_000;
    while now_ns() < end {
        let wake = (now_ns() / PERIOD_NS + 1) * PERIOD_NS + AFTER_TICK_NS;
        sleep_until(wake);
        // Up to a time of the clock, not for an amount of time: a late start must not push it over the next tick.
        while now_ns() < wake + WORK_NS {
            hint::spin_loop();
        }
    }
}

fn now_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel fills in the structure; it fails only for clocks that do not exist.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn sleep_until(deadline_ns: u64) {
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the deadline lives through the call, and an absolute sleep reports no rest.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &deadline, ptr::null_mut());
    }
}
