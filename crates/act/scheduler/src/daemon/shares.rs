//! CPU time of processes, and the waits of their threads for a CPU.

use std::collections::{HashMap, HashSet};
use std::fs;

use spry_policy::Tgid;

use super::process;

/// The shortest time over which a share is measured, ns.
const WINDOW_LEAST_NS: u64 = 400_000_000;
/// The time between two measurements of all processes, ns: without a watching client, and with one.
const CENSUS_NS: u64 = 10_000_000_000;
const CENSUS_WATCHED_NS: u64 = 900_000_000;
/// Measuring all processes may take one part in this many of a CPU. With tens of thousands of processes it
/// is done less often.
const CENSUS_PART: u64 = 200;
/// The most threads of a process of which waits are measured.
const THREADS_MAX: usize = 64;

/// The measurements of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Measure {
    since_ns: u64,
    cpu_ns: u64,
    share: Option<f64>,
    waits: Option<Waits>,
    dispatch_us: Option<f64>,
}

/// The sum of the waits of a process' threads for a CPU, and their number, as the kernel counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Waits {
    waited_ns: u64,
    times: u64,
}

/// The CPU time and waits of processes.
#[derive(Debug, Default)]
pub struct Shares {
    known: HashMap<Tgid, Measure>,
    /// The time of the last measurement of all processes, and its duration, ns.
    census_ns: Option<u64>,
    census_cost_ns: u64,
}

/// Whether a client watches, which makes measurements more frequent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// A client watches.
    Yes,
    /// No client watches.
    No,
}

impl Shares {
    /// Measures the CPU time of processes.
    pub fn measure(&mut self, who: impl IntoIterator<Item = Tgid>, now_ns: u64) {
        for tgid in who {
            let Some(cpu_ns) = cpu_ns(tgid) else {
                self.known.remove(&tgid);
                continue;
            };
            let new = Measure { since_ns: now_ns, cpu_ns, ..Measure::default() };
            let measure = self.known.entry(tgid).or_insert(new);
            if cpu_ns < measure.cpu_ns {
                // The number belongs to another process now.
                *measure = new;
            }
            let elapsed_ns = now_ns.saturating_sub(measure.since_ns);
            if elapsed_ns >= WINDOW_LEAST_NS {
                measure.share = Some((cpu_ns - measure.cpu_ns) as f64 / elapsed_ns as f64);
                (measure.since_ns, measure.cpu_ns) = (now_ns, cpu_ns);
            }
        }
    }

    /// Measures all processes, if that is due.
    pub fn census(&mut self, watched: Audience, now_ns: u64, clock: impl Fn() -> u64) {
        let period_ns = match watched {
            Audience::Yes => CENSUS_WATCHED_NS,
            Audience::No => CENSUS_NS,
        };
        let pause_ns = period_ns.max(self.census_cost_ns * CENSUS_PART);
        if self.census_ns.is_some_and(|latest_ns| now_ns < latest_ns + pause_ns) {
            return;
        }
        let began_ns = clock();
        let all = process::all();
        let living: HashSet<Tgid> = all.iter().copied().collect();
        self.known.retain(|tgid, _| living.contains(tgid));
        self.measure(all, now_ns);
        self.census_cost_ns = clock().saturating_sub(began_ns);
        self.census_ns = Some(now_ns);
    }

    /// Measures the waits of processes' threads for a CPU. This takes a few system calls for each thread, so
    /// it is done only for processes that are shown.
    pub fn measure_waits(&mut self, who: impl IntoIterator<Item = Tgid>) {
        for tgid in who {
            let Some(measure) = self.known.get_mut(&tgid) else { continue };
            let now = waits(tgid);
            if let (Some(before), Some(now)) = (measure.waits, now) {
                let times = now.times.saturating_sub(before.times);
                let waited_ns = now.waited_ns.saturating_sub(before.waited_ns);
                measure.dispatch_us = (times > 0).then(|| waited_ns as f64 / times as f64 / 1_000.0);
            }
            measure.waits = now;
        }
    }

    /// A process' recent share of CPU time, in CPUs.
    pub fn share(&self, tgid: Tgid) -> Option<f64> {
        self.known.get(&tgid)?.share
    }

    /// The recent mean time from becoming runnable to running, of a process' threads, us.
    pub fn dispatch_us(&self, tgid: Tgid) -> Option<f64> {
        self.known.get(&tgid)?.dispatch_us
    }

    /// The processes with at least the share `least`, the largest share first.
    pub fn most(&self, least: f64) -> Vec<Tgid> {
        let mut list: Vec<(f64, Tgid)> = self
            .known
            .iter()
            .filter_map(|(&tgid, measure)| Some((measure.share.filter(|&share| share >= least)?, tgid)))
            .collect();
        list.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        list.into_iter().map(|(_, tgid)| tgid).collect()
    }
}

/// The CPU time of all threads of a process so far, ns.
pub fn cpu_ns(tgid: Tgid) -> Option<u64> {
    spry_sys::clock::process_cpu_ns(tgid.0).ok()
}

/// The waits of a process' threads together. For each thread the kernel writes `run time,
/// waiting time, times`.
fn waits(tgid: Tgid) -> Option<Waits> {
    let threads = fs::read_dir(format!("/proc/{}/task", tgid.0)).ok()?;
    let mut all = Waits::default();
    for thread in threads.flatten().take(THREADS_MAX) {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let mut numbers = text.split_ascii_whitespace().skip(1).map_while(|word| word.parse::<u64>().ok());
        all.waited_ns += numbers.next()?;
        all.times += numbers.next()?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn the_share_of_a_busy_process_is_measured() {
        let me = Tgid(std::process::id());
        let began = Instant::now();
        let now_ns = || began.elapsed().as_nanos() as u64;
        let mut shares = Shares::default();
        shares.measure([me], now_ns());
        assert_eq!(shares.share(me), None);
        let cpu_before_ns = cpu_ns(me).unwrap();
        while cpu_ns(me).unwrap() < cpu_before_ns + 100_000_000
            || began.elapsed() < Duration::from_millis(450)
        {
            std::hint::spin_loop();
        }
        shares.measure([me], now_ns());
        let share = shares.share(me).unwrap();
        assert!(share > 0.05 && share < 64.0, "{share}");
        assert_eq!(shares.most(0.05), [me]);
        assert!(waits(me).unwrap().times > 0);
    }

    #[test]
    fn an_exited_process_has_no_share() {
        // This number is beyond the largest that the kernel gives a process.
        let nobody = Tgid((1 << 22) + 7);
        let mut shares = Shares::default();
        shares.measure([nobody], 1);
        assert_eq!((cpu_ns(nobody), shares.share(nobody)), (None, None));
    }
}
