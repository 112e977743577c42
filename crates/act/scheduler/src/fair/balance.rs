//! The strength with which processes in use are raised. It leaves the other tasks their share of the CPU. The
//! daemon finds the right strength by measuring that share.
//!
//! Weights alone do not determine it. Beside a program of nice -20, one loop gets 1 % of the CPU and twenty
//! loops get 19 %. If sessions are scheduled as groups, each session counts as one loop.

use std::fs;

/// The length of a tick in `/proc/stat`, ns.
const TICK_NS: u64 = 10_000_000;
/// A round in which all CPUs together had less time than this is evaluated together with the next round, ns.
const LEAST_NS: u64 = 400_000_000;

/// The CPU time of the machine since boot, summed over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Machine {
    /// The time in which tasks ran, ns.
    pub busy_ns: u64,
    /// The time in which CPUs were idle, ns.
    pub idle_ns: u64,
}

impl Machine {
    /// The machine's times until now; `None` if the kernel does not report them.
    pub fn now() -> Option<Machine> {
        parse(fs::read_to_string("/proc/stat").ok()?.lines().next()?)
    }
}

fn parse(line: &str) -> Option<Machine> {
    let ticks: Vec<u64> =
        line.strip_prefix("cpu ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waiting, ..] = ticks[..] else { return None };
    Some(Machine { busy_ns: (user + nice + system) * TICK_NS, idle_ns: (idle + waiting) * TICK_NS })
}

/// The measurements of one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundMeasurement {
    /// The machine's times at the end of the round.
    pub machine: Machine,
    /// The CPU time that the processes in use have used since the last round, ns.
    pub in_use_ns: u64,
    /// Whether tasks that are not in use want a CPU.
    pub is_contended: bool,
}

/// The search for the right strength of the processes in use, round after round.
#[derive(Debug, Default)]
pub struct Balance {
    /// The number of nice steps by which the processes in use are below the strongest setting.
    steps: u32,
    last: Option<Machine>,
    /// The CPU time of the processes in use since `last`, ns.
    in_use_ns: u64,
}

impl Balance {
    /// Updates the strength after a round. Returns the number of nice steps by which it is below the
    /// strongest setting, `most` at most. `share_percent` is the share that the other tasks shall have.
    pub fn round(&mut self, seen: RoundMeasurement, share_percent: u32, most: u32) -> u32 {
        self.in_use_ns += seen.in_use_ns;
        let last = *self.last.get_or_insert(seen.machine);
        let busy_ns = seen.machine.busy_ns.saturating_sub(last.busy_ns);
        let whole_ns = busy_ns + seen.machine.idle_ns.saturating_sub(last.idle_ns);
        if whole_ns >= LEAST_NS {
            let below = busy_ns.saturating_sub(self.in_use_ns) * 1_000 / whole_ns;
            self.last = Some(seen.machine);
            self.in_use_ns = 0;
            let share = u64::from(share_percent) * 10;
            if !seen.is_contended {
                // A task that comes now competes with the strongest setting.
                self.steps = 0;
            } else if below * 2 < share {
                self.steps += 3;
            } else if below * 10 < share * 9 {
                self.steps += 1;
            } else if below * 2 > share * 3 {
                self.steps = self.steps.saturating_sub(1);
            }
        }
        self.steps = self.steps.min(most);
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates rounds on one CPU, on which a model gives the share of the other tasks.
    fn play(rounds: usize, mut below: impl FnMut(u32) -> u64) -> (u32, u64) {
        let mut balance = Balance::default();
        let (mut steps, mut machine, mut last) = (0, Machine::default(), 0);
        for _ in 0..rounds {
            last = below(steps);
            machine.busy_ns += 1_000_000_000;
            let seen =
                RoundMeasurement { machine, in_use_ns: 1_000_000_000 - last * 1_000_000, is_contended: true };
            steps = balance.round(seen, 5, 7);
        }
        (steps, last)
    }

    fn against(others: u64) -> impl FnMut(u32) -> u64 {
        move |steps| {
            let raised = 88_761.0 / 1.25_f64.powi(steps as i32);
            let below = 1_024.0 * others as f64;
            (1_000.0 * below / (below + raised)) as u64
        }
    }

    #[test]
    fn the_rest_has_its_share_after_some_rounds_and_not_much_more() {
        for others in 1..=8 {
            let (_, below) = play(6, against(others));
            assert!((43..=90).contains(&below), "{others}: {below} of a thousand");
        }
        let (steps, _) = play(30, against(40));
        assert_eq!(steps, 0, "the strongest there is, where the rest has more anyway");
    }

    #[test]
    fn without_anybody_else_the_strongest_is_kept_ready() {
        let mut balance = Balance::default();
        let mut machine = Machine::default();
        for _ in 0..5 {
            machine.busy_ns += 1_000_000_000;
            let seen = RoundMeasurement { machine, in_use_ns: 1_000_000_000, is_contended: false };
            assert_eq!(balance.round(seen, 5, 7), 0);
        }
    }

    #[test]
    fn the_machines_time_is_told_apart() {
        let line = "cpu  100 10 40 500 25 0 3 9 0 0";
        assert_eq!(parse(line), Some(Machine { busy_ns: 1_500_000_000, idle_ns: 5_250_000_000 }));
        assert_eq!(parse("cpu  1 2"), None);
        assert!(Machine::now().unwrap().idle_ns > 0);
    }
}
