//! How many want the CPU beside those in use: what the weights are chosen by.

use std::fs;

/// How much of the new a second's average takes, in 256ths.
const NEW: u64 = 96;
/// Averages count 256ths.
const ONE: u64 = 256;

/// Averages of what is runnable on the whole machine, for each CPU.
#[derive(Debug, Default)]
pub struct Contention {
    others: Option<u64>,
    in_use: u64,
}

impl Contention {
    /// One sample: all that is runnable, the caller included, and how many of those are in use.
    pub fn add(&mut self, runnable: u32, in_use: u32, cpus: u32) {
        let each = |count: u32| u64::from(count) * ONE / u64::from(cpus.max(1));
        let others = each(runnable.saturating_sub(1).saturating_sub(in_use));
        let mix = |old: u64, new: u64| (old * (ONE - NEW) + new * NEW) / ONE;
        self.in_use = if self.others.is_some() { mix(self.in_use, each(in_use)) } else { each(in_use) };
        // Up at once, down slowly: what is too weak loses frames.
        self.others = Some(self.others.map_or(others, |old| others.max(mix(old, others))));
    }

    /// Contenders for a CPU, rounded.
    pub fn others(&self) -> u32 {
        rounded(self.others.unwrap_or(0))
    }

    /// Threads in use that want the same CPU, rounded.
    pub fn in_use(&self) -> u32 {
        rounded(self.in_use)
    }
}

fn rounded(parts: u64) -> u32 {
    ((parts + ONE / 2) / ONE) as u32
}

/// How many threads are runnable on this machine just now, the caller included.
pub fn runnable() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_count_at_once_and_are_forgotten_in_some_rounds() {
        let mut contention = Contention::default();
        contention.add(1, 0, 1);
        assert_eq!(contention.others(), 0);
        contention.add(11, 2, 1);
        assert_eq!(contention.others(), 8);
        for _ in 0..8 {
            contention.add(1, 0, 1);
        }
        assert_eq!(contention.others(), 0);
    }

    #[test]
    fn two_cpus_share_what_there_is() {
        let mut contention = Contention::default();
        contention.add(10, 1, 2);
        assert_eq!(contention.others(), 4);
        assert!(runnable().unwrap() >= 1);
    }
}
