//! Runs many endless loops at once. Prints the longest wait of a loop for the CPU, and the CPU time of all
//! loops together.
//!
//! `crowd COUNT SECONDS [NICE] [HOGS] [THREADS]`: besides the COUNT loops, HOGS loops named `hog` run, to
//! which another program may give a place. With THREADS, each process has that many loops as threads. All
//! loops begin when all of them exist and, if the standard input is a pipe, the standard input has ended.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{FileType, fstat};
use rustix::thread::futex;
use spry_sys::schedule::{self, Children, Policy};
use spry_sys::{Signal, process, signal};

use spry_attacks::shared;

/// The measurements of a loop: the last time at which it had the CPU, the longest time without the CPU, and
/// its CPU time; ns.
#[repr(C)]
struct Loop {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
    ran_ns: AtomicU64,
}

/// A time between two readings of the clock counts as time without the CPU if it is longer, ns.
const GAP_NS: u64 = 20_000;

/// A gate behind which all loops wait until it is opened. It opens for all at once, without a lock that one
/// loop has to pass to the next.
struct Gate(&'static AtomicU32);

impl Gate {
    fn new() -> Result<Gate> {
        Ok(Gate(&shared(1)?[0]))
    }

    fn pass(&self) {
        while self.0.load(Ordering::SeqCst) == 0 {
            // The wait may end early: then the gate is checked again.
            _ = futex::wait(self.0, futex::Flags::empty(), 0, None);
        }
    }

    fn open(&self) {
        self.0.store(1, Ordering::SeqCst);
        _ = futex::wake(self.0, futex::Flags::empty(), i32::MAX as u32);
    }
}

fn spin(own: &Loop, start: Instant) -> ! {
    loop {
        spry_attacks::work();
        let now = start.elapsed().as_nanos() as u64;
        let gap = now - own.last_ns.swap(now, Ordering::Relaxed);
        if gap > GAP_NS {
            own.longest_ns.fetch_max(gap, Ordering::Relaxed);
        } else {
            own.ran_ns.fetch_add(gap, Ordering::Relaxed);
        }
    }
}

fn wait_and_spin(gate: &Gate, own: &Loop, epoch: Instant) -> ! {
    // The first write takes a page fault, which holds the lock of the page that all loops share. A loop that
    // lost the CPU meanwhile would keep the other loops asleep.
    own.ran_ns.store(0, Ordering::Relaxed);
    gate.pass();
    own.last_ns.store(epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
    spin(own, epoch)
}

fn start(name: &std::ffi::CStr, nice: i32, own: &'static [Loop], epoch: Instant, gate: &Gate) -> Result<u32> {
    spry_attacks::start(|| {
        process::set_name(name);
        _ = schedule::set_nice(0, nice);
        let Some((leader, others)) = own.split_first() else { return };
        thread::scope(|scope| {
            for own in others {
                let small = thread::Builder::new().stack_size(32 << 10);
                if small.spawn_scoped(scope, || wait_and_spin(gate, own, epoch)).is_err() {
                    eprintln!("there is no place for so many threads");
                }
            }
            // The first thread has started the other loops, and is a loop itself.
            wait_and_spin(gate, leader, epoch)
        })
    })
}

fn is_pipe(file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<i32>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (count, seconds, nice, hogs) = (next(100)? as usize, next(5)? as u64, next(0)?, next(0)? as usize);
    let threads = next(1)?.max(1) as usize;
    let loops = shared(count + hogs)?;
    let epoch = Instant::now();
    let mut all = Vec::new();
    // The thread that measures must not wait for the loops that it measures.
    schedule::set_policy(0, Policy::RoundRobin(1), Children::Ordinary)?;
    let gate = Gate::new()?;
    for own in loops[count..].chunks(1) {
        all.push(start(c"hog", 0, own, epoch, &gate)?);
    }
    for own in loops[..count].chunks(threads) {
        all.push(start(c"crowd", nice, own, epoch, &gate)?);
    }
    let created = epoch.elapsed();
    if is_pipe(io::stdin()) {
        _ = io::stdin().read(&mut [0]);
    }
    gate.open();
    println!("started after {} ms", created.as_millis());
    // A program that gives places gets a second to find the loops.
    thread::sleep(Duration::from_secs(1));
    let before: Vec<u64> = loops.iter().map(|own| own.ran_ns.load(Ordering::Relaxed)).collect();
    loops.iter().for_each(|own| own.longest_ns.store(0, Ordering::Relaxed));
    let from = epoch.elapsed().as_nanos() as u64;
    thread::sleep(Duration::from_secs(seconds));
    let now = epoch.elapsed().as_nanos() as u64;
    let longest = |own: &Loop| {
        let waits = now.saturating_sub(own.last_ns.load(Ordering::Relaxed));
        own.longest_ns.load(Ordering::Relaxed).max(waits)
    };
    let ran = |range: std::ops::Range<usize>| -> u64 {
        range.map(|index| loops[index].ran_ns.load(Ordering::Relaxed) - before[index]).sum()
    };
    let worst = loops[..count].iter().map(longest).max().unwrap_or(0);
    let never = loops[..count].iter().filter(|own| own.last_ns.load(Ordering::Relaxed) < from).count();
    println!("longest wait {:.1} ms", worst as f64 / 1e6);
    println!("did not run in {seconds} s: {never} of {count}");
    println!("crowd had {:.2} %", ran(0..count) as f64 * 100.0 / (now - from) as f64);
    println!("hogs had {:.2} %", ran(count..count + hogs) as f64 * 100.0 / (now - from) as f64);
    let hogs_worst = loops[count..].iter().map(longest).max().unwrap_or(0);
    println!("hogs' longest wait {:.1} ms", hogs_worst as f64 / 1e6);
    for tgid in all {
        // The process is a child that has not been waited for.
        _ = signal::send(tgid, Signal::KILL);
    }
    Ok(())
}
