//! Takes a CPU from everybody below a real-time priority, once, for some milliseconds.
//!
//! usage: usurper CPU PRIORITY MILLISECONDS

use std::env;
use std::hint;
use std::io;
use std::time::{Duration, Instant};

fn main() {
    let numbers: Vec<u64> = env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [cpu, priority, length_ms] = numbers[..] else { panic!("usage: usurper CPU PRIORITY MILLISECONDS") };
    // SAFETY: a set of no CPUs is all zeros.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the CPU of a test is a small number.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    let param = libc::sched_param { sched_priority: priority as i32 };
    // SAFETY: the pointers are to a set and a parameter of our own, of the sizes that the kernel expects.
    let taken = unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
            && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0
    };
    assert!(taken, "cannot take CPU {cpu}: {}", io::Error::last_os_error());
    let end = Instant::now() + Duration::from_millis(length_ms);
    while Instant::now() < end {
        hint::spin_loop();
    }
}
