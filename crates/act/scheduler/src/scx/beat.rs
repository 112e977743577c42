//! Threads that wake to end turns, on kernels that give BPF programs no timers.
//!
//! A thread of the daemon goes before all other tasks, so a CPU on which it wakes decides again. Each CPU has
//! one such thread. The BPF program sets the time between their wake-ups. With thousands of tasks a round of
//! the daemon takes seconds, so the daemon could not set this in time.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// While a thread is not wanted: the time between two checks of whether it is wanted.
const LOOK: Duration = Duration::from_millis(100);
/// A thread uses at most 1/PART of its CPU. Up to 3 % it has the daemon's class (`each_percent`); beyond that
/// it would wait among all other tasks.
const PART: u32 = 40;
/// The cost of a wake-up is the mean of MEASURED wake-ups; before that, COST_NS is assumed.
const MEASURED: u32 = 32;
const COST_NS: u64 = 50_000;

/// The threads of all CPUs. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Beats {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The address of a word in the BPF program's memory: the time between two wake-ups, ns; 0: no
/// wake-ups are wanted.
#[derive(Clone, Copy, Debug)]
struct Period(NonNull<u32>);

// SAFETY: the word is only read, atomically, and outlives the threads (`Beats::of_cpus`).
unsafe impl Send for Period {}

impl Period {
    fn get(self) -> u32 {
        // SAFETY: this is a word of mapped memory, aligned as in C, that only BPF writes; it stays mapped as
        // `Beats::of_cpus` requires.
        unsafe { AtomicU32::from_ptr(self.0.as_ptr()) }.load(Ordering::Relaxed)
    }
}

impl Beats {
    /// Starts a thread for each of `count` CPUs. That is done before the threads are needed, since the
    /// machine may not be able to make threads then. A CPU without such a thread still has its ticks.
    ///
    /// # Safety
    /// `period_ns` points to a word of mapped memory that outlives the returned value.
    pub(super) unsafe fn of_cpus(count: usize, period_ns: NonNull<u32>) -> Beats {
        let is_over = Arc::new(AtomicBool::new(false));
        let period = Period(period_ns);
        let thread = |cpu: usize| {
            let is_over = Arc::clone(&is_over);
            thread::Builder::new().name(format!("spry-beat{cpu}")).spawn(move || beat(cpu, period, &is_over))
        };
        let threads = (0..count).flat_map(thread).collect();
        Beats { is_over, threads }
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|thread| thread.thread().unpark());
        for thread in self.threads.drain(..) {
            // The thread's panic, if any, has been printed.
            let _ = thread.join();
        }
    }
}

/// The main function of a CPU's thread.
fn beat(cpu: usize, period: Period, is_over: &AtomicBool) {
    let mut only = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        only.set(cpu);
    }
    // A CPU that is offline needs no thread.
    if sched_setaffinity(None, &only).is_err() {
        return;
    }
    // The BPF program recognises the thread by this nice value (`has_own_part`). On Linux each thread has its
    // own nice value.
    if setpriority_process(None, -20).is_err() {
        return;
    }
    let mut cost = Cost { each_ns: COST_NS, count: 0, before_ns: thread_cpu_ns() };
    while !is_over.load(Ordering::Relaxed) {
        match period.get() {
            0 => thread::park_timeout(LOOK),
            period_ns => thread::sleep(Duration::from_nanos(cost.spaced(period_ns.into()))),
        }
        cost.count(thread_cpu_ns);
    }
}

/// The CPU time that a wake-up takes, measured.
struct Cost {
    each_ns: u64,
    count: u32,
    before_ns: u64,
}

impl Cost {
    /// Counts a wake-up, and updates the mean cost after MEASURED of them.
    fn count(&mut self, cpu_ns: impl Fn() -> u64) {
        self.count += 1;
        if self.count == MEASURED {
            let now_ns = cpu_ns();
            self.each_ns = now_ns.saturating_sub(self.before_ns) / u64::from(MEASURED);
            (self.count, self.before_ns) = (0, now_ns);
        }
    }

    /// The time to the next wake-up, ns: `wanted_ns`, or longer if wake-ups cost too much.
    fn spaced(&self, wanted_ns: u64) -> u64 {
        wanted_ns.max(self.each_ns * u64::from(PART))
    }
}

/// The CPU time of the calling thread so far, ns.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_wake_ups_are_a_fortieth_of_the_time_at_most() {
        let mut cost = Cost { each_ns: COST_NS, count: 0, before_ns: 0 };
        assert_eq!(cost.spaced(500_000), 2_000_000);
        (0..MEASURED).for_each(|_| cost.count(|| 32 * 5_000));
        assert_eq!((cost.spaced(500_000), cost.spaced(100_000)), (500_000, 200_000));
    }
}
