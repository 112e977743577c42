//! Many endless loops at once: how long each waits for the CPU at most, and how much all of them get.
//!
//! `crowd COUNT SECONDS [NICE] [HOGS] [THREADS]`: besides, HOGS loops named `hog` run, which another may give a place.
//! With THREADS, so many loops are one process. All begin when all are there and the standard input, if that is a
//! pipe, has ended.

mod common;

use std::io::{self, Read};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use common::shared;

/// What a loop says of itself: when it last had the CPU, the longest time without, how much it had; ns.
#[repr(C)]
struct Loop {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
    ran_ns: AtomicU64,
}

/// A time without the CPU is longer than this, ns.
const GAP_NS: u64 = 20_000;

/// Behind which all wait until it is opened, for all at once and without a lock that one has to hand to the next.
struct Gate(&'static AtomicU32);

impl Gate {
    fn new() -> Result<Gate> {
        Ok(Gate(&shared(1)?[0]))
    }

    fn pass(&self) {
        while self.0.load(Ordering::SeqCst) == 0 {
            self.futex(libc::FUTEX_WAIT, 0);
        }
    }

    fn open(&self) {
        self.0.store(1, Ordering::SeqCst);
        self.futex(libc::FUTEX_WAKE, i32::MAX);
    }

    fn futex(&self, what: i32, value: i32) {
        let none = ptr::null::<libc::timespec>();
        // SAFETY: the word is never unmapped; no time is given.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), what, value, none) };
    }
}

fn spin(own: &Loop, start: Instant) -> ! {
    loop {
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
    gate.pass();
    own.last_ns.store(epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
    spin(own, epoch)
}

fn start(
    name: &std::ffi::CStr,
    nice: i32,
    own: &'static [Loop],
    epoch: Instant,
    gate: &Gate,
) -> Result<libc::pid_t> {
    common::start(|| {
        common::set_name(name);
        // SAFETY: numbers only.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
        let Some((leader, others)) = own.split_first() else { return };
        thread::scope(|scope| {
            for own in others {
                let small = thread::Builder::new().stack_size(32 << 10);
                if small.spawn_scoped(scope, || wait_and_spin(gate, own, epoch)).is_err() {
                    eprintln!("there is no place for so many threads");
                }
            }
            // Who has started the others is one of them.
            wait_and_spin(gate, leader, epoch)
        })
    })
}

fn is_pipe(fd: i32) -> bool {
    // SAFETY: a status is plain numbers, and outlives the call.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut status) == 0 && status.st_mode & libc::S_IFMT == libc::S_IFIFO
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<i32>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (count, seconds, nice, hogs) = (next(100)? as usize, next(5)? as u64, next(0)?, next(0)? as usize);
    let threads = next(1)?.max(1) as usize;
    let loops = shared(count + hogs)?;
    let epoch = Instant::now();
    let mut all = Vec::new();
    // Who measures does not wait for those who are measured.
    common::become_real_time(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1)?;
    let gate = Gate::new()?;
    for own in loops[count..].chunks(1) {
        all.push(start(c"hog", 0, own, epoch, &gate)?);
    }
    for own in loops[..count].chunks(threads) {
        all.push(start(c"crowd", nice, own, epoch, &gate)?);
    }
    let created = epoch.elapsed();
    if is_pipe(0) {
        _ = io::stdin().read(&mut [0]);
    }
    gate.open();
    println!("started after {} ms", created.as_millis());
    // Whoever gives places sees them first.
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
        // SAFETY: children of this process that have not been waited for.
        unsafe { libc::kill(tgid, libc::SIGKILL) };
    }
    Ok(())
}
