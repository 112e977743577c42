//! Measures whether time passes evenly on this machine's CPUs: the time of a counted loop beside other
//! programs, and the time of a wake-up of another CPU.

use std::arch::asm;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// How often the counted loop repeats its two instructions.
const LOOPS: u64 = 10_000_000;
/// How many wake-ups are measured.
const WAKES: u64 = 1_000;

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("this machine has the CPU");
}

/// Executes the same instructions each time, and nothing else.
#[inline(never)]
fn counted() {
    let mut left = LOOPS;
    // SAFETY: the loop changes only its own register and the flags.
    unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) left, options(nomem, nostack)) };
    black_box(left);
}

/// How long the loop takes on the first CPU while `others` further CPUs write, copy and enter the kernel, ns.
fn beside(others: usize) -> u128 {
    let over = AtomicBool::new(false);
    // After this sleep the kernel has finished its work for the last measurement.
    thread::sleep(Duration::from_millis(200));
    thread::scope(|scope| {
        for cpu in 1..=others {
            let over = &over;
            scope.spawn(move || {
                pin(cpu);
                let mut page = vec![0_u8; 4096];
                while !over.load(Ordering::Relaxed) {
                    page.fill(black_box(cpu as u8));
                    black_box(&page);
                    thread::yield_now();
                }
            });
        }
        thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        counted();
        let took = begun.elapsed().as_nanos();
        over.store(true, Ordering::Relaxed);
        took
    })
}

/// Wakes a sleeping thread on another CPU again and again. Returns the time of each wake-up, ns, in
/// ascending order.
fn wakes() -> Vec<u64> {
    let (begun, asked, done) = (Instant::now(), AtomicU64::new(0), AtomicU64::new(0));
    let now_ns = || begun.elapsed().as_nanos() as u64;
    let mut took = Vec::new();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            pin(1);
            for _ in 0..WAKES {
                while asked.load(Ordering::Acquire) == 0 {
                    thread::park();
                }
                took.push(now_ns() - asked.swap(0, Ordering::AcqRel));
                done.fetch_add(1, Ordering::Release);
            }
        });
        let sleeper: &Thread = sleeper.thread();
        for wake in 0..WAKES {
            // At that moment the thread sleeps again, and its CPU sleeps too.
            let until_ns = now_ns() + 100_000 + wake * 7_919 % 50_000;
            while now_ns() < until_ns || done.load(Ordering::Acquire) < wake {}
            asked.store(now_ns(), Ordering::Release);
            sleeper.unpark();
        }
    });
    took.sort_unstable();
    took
}

fn main() {
    let cpus = thread::available_parallelism().expect("the machine tells").get();
    pin(0);
    for others in 0..cpus {
        println!("loop {others} {}", beside(others));
    }
    if cpus > 1 {
        let took = wakes();
        let at = |per_mille| took[took.len() * per_mille / 1000];
        println!("wake {} {} {}", at(500), at(900), at(990));
    }
}
