//! Keeps a real-time display server from occupying the whole machine. The guardian measures the server's CPU
//! time, at a higher priority, and makes it an ordinary task if it uses too much.

use std::sync::atomic::Ordering;

use spry_sys::clock::process_cpu_ns;

use super::journal::{Journal, WATCHED_MAX};
use super::settings::{ROUND_ROBIN, Settings};
use super::undo::DEMOTED;

/// The time between two measurements of real-time servers, ns.
pub const LOOK_EVERY_NS: u64 = 100_000_000;
/// The time over which a server's use of the CPU is measured, ns. For this long the server can keep all
/// other tasks waiting.
pub const WINDOW_NS: u64 = 500_000_000;
/// The part of the window that a server may use as a real-time task, percent of one CPU.
pub const BUSY_PERCENT: u64 = 60;
/// The time for which a demoted server stays an ordinary task before it may be real-time again, ns.
pub const PENANCE_NS: u64 = 10_000_000_000;

const SAMPLES: usize = (WINDOW_NS / LOOK_EVERY_NS) as usize;

/// The samples of CPU time of all watched processes.
#[derive(Debug, Default)]
pub struct UsageWatch {
    seen: [Usage; WATCHED_MAX],
}

#[derive(Debug, Default, Clone, Copy)]
struct Usage {
    tgid: u32,
    /// Pairs of a time and the CPU time used until then, ns. A new pair overwrites the oldest.
    samples: [(u64, u64); SAMPLES],
    count: usize,
}

impl Usage {
    /// Adds a sample. Returns whether the process has used more than its part of the window that ends now.
    fn add(&mut self, tgid: u32, now_ns: u64, cpu_ns: u64) -> bool {
        if self.tgid != tgid {
            *self = Usage { tgid, ..Usage::default() };
        }
        let slot = self.count % SAMPLES;
        let (then_ns, then_cpu_ns) = self.samples[slot];
        let full = self.count >= SAMPLES;
        self.samples[slot] = (now_ns, cpu_ns);
        self.count += 1;
        let took = cpu_ns.saturating_sub(then_cpu_ns).saturating_mul(100);
        full && took > now_ns.saturating_sub(then_ns).saturating_mul(BUSY_PERCENT)
    }
}

impl UsageWatch {
    /// Measures all watched processes, and demotes processes that used too much. Returns whether there are
    /// processes to watch.
    pub fn look(&mut self, journal: &Journal, now_ns: u64) -> bool {
        let mut any = false;
        for (watched, usage) in journal.watched().iter().zip(&mut self.seen) {
            let tgid = watched.tgid.load(Ordering::Acquire);
            if tgid == 0 {
                *usage = Usage::default();
                continue;
            }
            any = true;
            if watched.demoted_ns.load(Ordering::Acquire) != 0 {
                // The process is demoted again: the daemon may have been about to promote
                // another thread of it.
                *usage = Usage::default();
                demote(journal, tgid);
            } else if process_cpu_ns(tgid).is_ok_and(|used_ns| usage.add(tgid, now_ns, used_ns)) {
                watched.demoted_ns.store(now_ns.max(1), Ordering::Release);
                demote(journal, tgid);
            }
        }
        any
    }
}

/// Makes the threads of a process that still have the real-time policy from Spry ordinary tasks.
fn demote(journal: &Journal, tgid: u32) {
    for (_, task) in journal.tasks().filter(|(_, task)| task.id.tgid == tgid) {
        let ours = task.ours.iter().find(|ours| ours.policy == ROUND_ROBIN);
        let Some(ours) = ours else { continue };
        let now = Settings::scheduling_of(task.id.tid, 0);
        let is_ours = now.is_ok_and(|now| now.policy == ours.policy && now.priority == ours.priority);
        if is_ours && task.id.is_alive() {
            _ = DEMOTED.schedule(task.id.tid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_no_offence_and_half_a_second_above_the_limit_is() {
        let mut usage = Usage::default();
        let mut cpu_ns = 0;
        let mut look = |at: u64, percent: u64| {
            cpu_ns += LOOK_EVERY_NS * percent / 100;
            usage.add(7, at * LOOK_EVERY_NS, cpu_ns)
        };
        let shares = [100, 100, 0, 0, 100, 0, 100, 50, 20, 20, 90, 90, 90, 90];
        let offences: Vec<usize> = shares
            .iter()
            .enumerate()
            .filter(|&(at, &share)| look(at as u64 + 1, share))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(offences, [12, 13], "80 % of the latest half second, not before");
    }
}
