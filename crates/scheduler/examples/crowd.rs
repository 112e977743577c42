//! Many endless loops at once: how long each waits for the CPU at most, and how much all of them get.
//!
//! `crowd COUNT SECONDS [NICE] [HOGS]`: besides, HOGS loops named `hog` run, which another may give a place.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// What a loop says of itself: when it last had the CPU, the longest time without, how much it had; ns.
#[repr(C)]
struct Loop {
    last_ns: AtomicU64,
    longest_ns: AtomicU64,
    ran_ns: AtomicU64,
}

/// A time without the CPU is longer than this, ns.
const GAP_NS: u64 = 20_000;

fn shared(count: usize) -> Result<&'static [Loop]> {
    let bytes = count * size_of::<Loop>();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which the kernel fills with zeros.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    ensure!(start != libc::MAP_FAILED, io::Error::last_os_error());
    // SAFETY: it has that size, is never unmapped, and atomics are valid whatever their bytes.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), count) })
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

fn start(name: &std::ffi::CStr, nice: i32, own: &Loop, epoch: Instant) -> Result<libc::pid_t> {
    // SAFETY: this process has one thread.
    let tgid = unsafe { libc::fork() };
    ensure!(tgid >= 0, io::Error::last_os_error());
    if tgid == 0 {
        // SAFETY: numbers and a string that ends in a zero.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::prctl(libc::PR_SET_NAME, name.as_ptr());
            libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        }
        spin(own, epoch);
    }
    Ok(tgid)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).map(|text| text.parse::<i32>());
    let mut next = |default| args.next().unwrap_or(Ok(default)).context("a number");
    let (count, seconds, nice, hogs) = (next(100)? as usize, next(5)? as u64, next(0)?, next(0)? as usize);
    let loops = shared(count + hogs)?;
    let epoch = Instant::now();
    let mut all = Vec::new();
    // SAFETY: numbers only; who starts the others must get to it.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    for (index, own) in loops.iter().enumerate() {
        let is_hog = index >= count;
        own.last_ns.store(epoch.elapsed().as_nanos() as u64, Ordering::Relaxed);
        all.push(start(if is_hog { c"hog" } else { c"crowd" }, if is_hog { 0 } else { nice }, own, epoch)?);
    }
    println!("started after {} ms", epoch.elapsed().as_millis());
    // Whoever gives places sees them first.
    std::thread::sleep(Duration::from_secs(1));
    let before: Vec<u64> = loops.iter().map(|own| own.ran_ns.load(Ordering::Relaxed)).collect();
    loops.iter().for_each(|own| own.longest_ns.store(0, Ordering::Relaxed));
    let from = epoch.elapsed().as_nanos() as u64;
    std::thread::sleep(Duration::from_secs(seconds));
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
