//! Measures how much CPU time the threads of a graph need in a period. The kernel's own count of their run
//! time (`schedstat`) is read once a period for some seconds.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use spry_reservations::Busy;
use spry_sys::run_time::RunTime;

/// The shortest length of a measurement, its least number of steps, and its longest length.
const MEASURED_FOR: Duration = Duration::from_secs(3);
const PERIODS_MIN: u32 = 200;
const MEASURED_MOST: Duration = Duration::from_secs(10);
/// The run time is read no more often than this, ns: shorter periods are read several at a time.
const STEP_MIN_NS: u64 = 1_000_000;

/// A thread of the graph.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AudioThread {
    pub tgid: u32,
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
    /// The period of the driver that it works for, ns.
    pub period_ns: u64,
}

/// The threads of a process that work for nodes: its data loops, or its first thread if it has none.
pub fn threads_of(tgid: u32, period_ns: u64) -> Vec<AudioThread> {
    let thread = |tid: u32, comm: String| AudioThread { tgid, tid, comm, period_ns };
    let entries = fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten();
    let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let named = tids.filter_map(|tid| Some(thread(tid, comm(tgid, tid)?)));
    let (loops, others): (Vec<AudioThread>, Vec<AudioThread>) =
        named.partition(|thread| is_loop(&thread.comm));
    if loops.is_empty() {
        return others.into_iter().filter(|thread| thread.tid == tgid).collect();
    }
    loops
}

/// Whether PipeWire gives this name to threads that process data.
fn is_loop(comm: &str) -> bool {
    comm.starts_with("data-loop") || comm.starts_with("pw-data-loop")
}

fn comm(tgid: u32, tid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{tgid}/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}

/// Measures each thread about once in its own period; ends early when `is_over` returns true. Threads of
/// several drivers may have different periods.
pub fn measure(threads: &[AudioThread], is_over: &dyn Fn() -> bool) -> Vec<Busy> {
    let mut busy = vec![Busy::default(); threads.len()];
    let times: Vec<Option<RunTime>> =
        threads.iter().map(|thread| RunTime::of(thread.tgid, thread.tid).ok()).collect();
    let ran_ns = |time: &Option<RunTime>| time.as_ref().and_then(RunTime::ran_ns);
    let periods_ns = || threads.iter().map(|thread| thread.period_ns);
    let (Some(shortest_ns), Some(longest_ns)) = (periods_ns().min(), periods_ns().max()) else { return busy };
    let step = Duration::from_nanos(STEP_MIN_NS.div_ceil(shortest_ns.max(1)) * shortest_ns);
    let longest = Duration::from_nanos(longest_ns);
    let length = MEASURED_FOR.max(step.max(longest) * PERIODS_MIN).min(MEASURED_MOST);
    let began = Instant::now();
    let mut next = began + step;
    let mut before: Vec<(Option<u64>, Instant)> = times.iter().map(|time| (ran_ns(time), began)).collect();
    while began.elapsed() < length && !is_over() {
        sleep(next.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        for (at, time) in times.iter().enumerate() {
            let (ran_before_ns, read) = before[at];
            let elapsed_ns = u64::try_from((now - read).as_nanos()).unwrap_or(u64::MAX);
            if !Busy::is_enough(elapsed_ns, threads[at].period_ns) {
                continue;
            }
            let after = ran_ns(time);
            if let (Some(before), Some(after)) = (ran_before_ns, after) {
                busy[at].take(after.saturating_sub(before), elapsed_ns, threads[at].period_ns);
            }
            before[at] = (after, now);
        }
        // A late reading delays the later readings, so that none of them comes early.
        next = (next + step).max(now + step / 2);
    }
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_computes_is_seen_to_compute() {
        let own = |period_ns| AudioThread {
            tgid: std::process::id(),
            tid: spry_sys::process::tid(),
            comm: String::new(),
            period_ns,
        };
        // A driver of another period has the same thread.
        let both = [own(1_000_000), own(20_000_000)];
        let ended = std::sync::atomic::AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            let ended = &ended;
            let looks = scope.spawn(|| {
                let found = measure(&both, &|| ended.load(std::sync::atomic::Ordering::Relaxed));
                ended.store(true, std::sync::atomic::Ordering::Relaxed);
                found
            });
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(300) {}
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
            looks.join().expect("it ends well")
        });
        assert!(found[0].is_used() && found[0].high_ns() > 100_000, "{found:?}");
        assert!(found[1].is_used() && found[1].high_ns() > 2_000_000, "{found:?}");
        assert_eq!(threads_of(std::process::id(), 1).len(), 1, "the first thread, which is no data loop");
    }
}
