//! What scheduling costs: a round trip through pipes, a pair of yields, fork and exit and wait, in nanoseconds each.
//!
//! In the lab a nanosecond is an instruction. `costs [REPETITIONS]` prints the median of as many batches.

use std::io;
use std::time::Instant;

use anyhow::{Result, ensure};

/// Operations that are timed together.
const BATCH: u32 = 20;

fn pipe() -> Result<[i32; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for both ends.
    ensure!(unsafe { libc::pipe(ends.as_mut_ptr()) } == 0, io::Error::last_os_error());
    Ok(ends)
}

fn pass(from: i32, to: i32) -> bool {
    let mut byte = 0u8;
    // SAFETY: one byte each, which lives as long as the calls.
    unsafe {
        libc::read(from, (&raw mut byte).cast(), 1) == 1 && libc::write(to, (&raw const byte).cast(), 1) == 1
    }
}

fn fork(child: impl FnOnce()) -> Result<libc::pid_t> {
    // SAFETY: this process has one thread.
    let tgid = unsafe { libc::fork() };
    ensure!(tgid >= 0, io::Error::last_os_error());
    if tgid == 0 {
        child();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    Ok(tgid)
}

fn end(tgid: libc::pid_t) {
    // SAFETY: a child of this process that has not been waited for.
    unsafe {
        libc::kill(tgid, libc::SIGKILL);
        libc::waitpid(tgid, std::ptr::null_mut(), 0);
    }
}

/// The median of batches, ns an operation.
fn median(repetitions: u32, mut batch: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..repetitions)
        .map(|_| {
            let start = Instant::now();
            batch();
            start.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn round_trips(repetitions: u32) -> Result<f64> {
    let (there, back) = (pipe()?, pipe()?);
    let other = fork(|| while pass(there[0], back[1]) {})?;
    // SAFETY: one byte of static memory.
    unsafe { libc::write(back[1], c"".as_ptr().cast(), 1) };
    let cost = median(repetitions, || (0..BATCH).for_each(|_| assert!(pass(back[0], there[1]))));
    end(other);
    Ok(cost)
}

fn yields(repetitions: u32) -> Result<f64> {
    // SAFETY: no arguments.
    let once = || unsafe { libc::sched_yield() };
    let other = fork(|| {
        loop {
            once();
        }
    })?;
    let cost = median(repetitions, || (0..BATCH).for_each(|_| assert_eq!(once(), 0)));
    end(other);
    Ok(cost)
}

fn forks(repetitions: u32) -> f64 {
    median(repetitions, || {
        for _ in 0..BATCH {
            let child = fork(|| ()).expect("it forks");
            // SAFETY: a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        }
    })
}

fn main() -> Result<()> {
    let repetitions = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    println!("pipe_round_trip {:.0}", round_trips(repetitions)?);
    println!("yield_pair {:.0}", yields(repetitions)?);
    println!("fork_exit_wait {:.0}", forks(repetitions));
    Ok(())
}
