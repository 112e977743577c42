//! The contention: whether tasks that are not in use want the CPU, and how many threads in use share a CPU.

use std::fs;

/// The weight of the newest sample in an average, in 256ths.
const NEW: u64 = 96;
/// The unit of the averages, which are in 256ths.
const ONE: u64 = 256;

/// Moving averages of numbers of runnable threads: not in use, on all CPUs; in use, on each CPU.
#[derive(Debug, Default)]
pub struct Contention {
    others: u64,
    in_use: u64,
}

impl Contention {
    /// Adds a sample: the number of runnable threads, including the calling thread, and the number of them
    /// that are in use.
    pub fn add(&mut self, runnable: u32, in_use: u32, cpus: u32) {
        let others = u64::from(runnable.saturating_sub(1).saturating_sub(in_use)) * ONE;
        let mix = |old: u64, new: u64| (old * (ONE - NEW) + new * NEW) / ONE;
        self.in_use = mix(self.in_use, u64::from(in_use) * ONE / u64::from(cpus.max(1)));
        self.others = mix(self.others, others);
    }

    /// Whether a task that is not in use was runnable in most of the latest rounds.
    pub fn is_contended(&self) -> bool {
        self.others >= ONE / 2
    }

    /// The average number of threads in use that want the same CPU, at least 1.
    pub fn in_use(&self) -> u32 {
        (((self.in_use + ONE / 2) / ONE) as u32).max(1)
    }
}

/// The number of threads that are runnable on this machine now, including the calling thread.
pub fn runnable() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_known_in_two_rounds_and_forgotten_in_some() {
        let mut contention = Contention::default();
        contention.add(1, 0, 1);
        assert!(!contention.is_contended());
        contention.add(3, 1, 1);
        contention.add(3, 1, 1);
        assert!(contention.is_contended());
        for _ in 0..3 {
            contention.add(1, 0, 1);
        }
        assert!(!contention.is_contended());
    }

    #[test]
    fn those_in_use_are_spread_over_the_cpus() {
        let mut contention = Contention::default();
        for _ in 0..20 {
            contention.add(10, 4, 2);
        }
        assert_eq!(contention.in_use(), 2);
        assert!(runnable().unwrap() >= 1);
    }
}
