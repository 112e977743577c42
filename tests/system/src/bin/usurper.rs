//! Takes a CPU from every task below a real-time priority, once, for some milliseconds.
//!
//! usage: usurper CPU PRIORITY MILLISECONDS

use std::env;
use std::hint;
use std::time::{Duration, Instant};

use spry_sys::cpus::set_cpu;
use spry_sys::schedule::set_fifo;

fn main() {
    let numbers: Vec<u64> = env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [cpu, priority, length_ms] = numbers[..] else { panic!("usage: usurper CPU PRIORITY MILLISECONDS") };
    let taken = set_cpu(cpu as u32).and_then(|()| set_fifo(priority as u8));
    taken.unwrap_or_else(|error| panic!("cannot take CPU {cpu}: {error}"));
    let end = Instant::now() + Duration::from_millis(length_ms);
    while Instant::now() < end {
        hint::spin_loop();
    }
}
