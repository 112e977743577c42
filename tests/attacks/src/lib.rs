//! The programs in `examples` attack a scheduler or load the machine. Common parts: work, processes, and
//! memory that the processes share.

use std::hint::black_box;
use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use spry_sys::settle::Setting;
use spry_sys::{Signal, process};

/// Work of about 2 us on a CPU that executes an instruction a nanosecond. Loops do it between two readings of
/// the clock. In the lab, a reading takes as much of the host's time as thousands of plain instructions.
pub fn work() {
    let (mut a, mut b, mut c, mut d) = (black_box(1_u64), 2_u64, 3_u64, 4_u64);
    for _ in 0..24 {
        for _ in 0..8 {
            a = a.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(b);
            b ^= a >> 7;
            c = c.wrapping_add(d.rotate_left(5));
            d ^= c;
        }
    }
    black_box((a, b, c, d));
}

/// Works for the time `run`.
pub fn spin(run: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < run {
        work();
    }
}

/// Forks a process that does `work` until it is done, or is killed, or its parent has ended. The calling
/// process has one thread.
pub fn start(work: impl FnOnce()) -> Result<u32> {
    let child = || {
        _ = Setting::EndsWithParent(Signal::KILL).apply();
        work();
        0
    };
    process::fork(child).context("fork")
}

/// Waits for a child's end.
pub fn reap(tgid: u32) {
    _ = process::wait(tgid);
}

/// Memory that forked processes share. At first it is all zeros, so `T` must be valid with all zeros and
/// change by atomics alone.
pub fn shared<T>(count: usize) -> Result<&'static [T]> {
    let bytes = count * size_of::<T>();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which the kernel fills with zeros.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    ensure!(start != libc::MAP_FAILED, io::Error::last_os_error());
    // SAFETY: it has that size, is never unmapped, and the callers' types are atomics, valid whatever their
    // bytes.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) })
}
