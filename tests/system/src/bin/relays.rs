//! Relays of threads, each of which starts the next one and ends, until the program is killed.
//!
//! usage: relays COUNT       prints a line when the relays run

use std::env;
use std::thread;

fn main() {
    let count: u32 = env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: relays COUNT");
    (0..count).for_each(|_| relay());
    println!("{count} relays");
    loop {
        thread::park();
    }
}

/// Starts the next thread. The kernel may refuse it while threads that have ended are still counted.
fn relay() {
    while thread::Builder::new().stack_size(16 << 10).spawn(relay).is_err() {
        thread::yield_now();
    }
}
