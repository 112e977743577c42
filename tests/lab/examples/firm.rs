//! Processes that sleep until deadlines, beside a loop that computes without system calls.
//!
//! `firm PROCESSES PERIOD_US SECONDS`: each process sleeps until its next deadline, PERIOD_US later, without
//! timer slack. The deadlines of the processes are spread over a period. Prints the loop's work in its own
//! unit, the number of sleeps, and how late the sleepers ran: median, 99 %, maximum, us.

use std::arch::asm;
use std::env;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use spry_sys::{clock, process};

/// How often the loop repeats its two instructions between two readings of the clock.
const LOOPS: u64 = 1_000;

/// Executes the same instructions each time.
fn work() {
    let mut left = LOOPS;
    // SAFETY: the loop changes only its own register and the flags.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) left, options(nomem, nostack)) };
    std::hint::black_box(left);
}

/// Sleeps until each deadline before the end. Returns by how much the process ran late each time, ns.
fn sleeps(first_ns: u64, period_ns: u64, end_ns: u64) -> Vec<u8> {
    let mut late = Vec::with_capacity(((end_ns - first_ns) / period_ns + 1) as usize * 8);
    let mut deadline_ns = first_ns;
    while deadline_ns < end_ns {
        clock::sleep_until(deadline_ns);
        let late_ns = clock::monotonic_ns() - deadline_ns;
        late.extend(late_ns.to_ne_bytes());
        deadline_ns += period_ns * (late_ns / period_ns + 1);
    }
    late
}

fn main() {
    let mut args = env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let mut next = || args.next().expect("firm PROCESSES PERIOD_US SECONDS");
    let (processes, period_ns, seconds) = (next(), next() * 1_000, next());
    let begin_ns = clock::monotonic_ns() + 100_000_000;
    let end_ns = begin_ns + seconds * 1_000_000_000;
    let mut pipes = Vec::new();
    for nth in 0..processes {
        let (from, mut to) = UnixStream::pair().expect("a pair of sockets");
        let first_ns = begin_ns + nth * period_ns / processes;
        process::fork(move || {
            clock::set_no_timer_slack();
            let late = sleeps(first_ns, period_ns, end_ns);
            i32::from(to.write_all(&late).is_err())
        })
        .expect("a process");
        pipes.push(from);
    }
    clock::sleep_until(begin_ns);
    let mut units: u64 = 0;
    while clock::monotonic_ns() < end_ns {
        work();
        units += 1;
    }
    let mut late_ns: Vec<u64> = Vec::new();
    for mut pipe in pipes {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("it can be read");
        late_ns.extend(bytes.chunks_exact(8).map(|ns| u64::from_ne_bytes(ns.try_into().expect("8 bytes"))));
    }
    late_ns.sort_unstable();
    let at =
        |share: f64| late_ns.get((late_ns.len() as f64 * share) as usize).copied().unwrap_or(0) as f64 / 1e3;
    let most = late_ns.last().copied().unwrap_or(0) as f64 / 1e3;
    println!("work {units} sleeps {} late {:.1} {:.1} {most:.1}", late_ns.len(), at(0.5), at(0.99));
}
