//! Who has each CPU, and how much of a stay there the kernel did not count as run time.

use rustc_hash::FxHashMap;
use spry_trace::Tid;

/// Differences between wall time and run time are told once they have added up to this, ns.
const TOLD_NS: i64 = 10_000;

/// Tasks whose differences are remembered; beyond, all begin anew.
const TASKS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    holder: Option<Tid>,
    since_ns: u64,
    /// What `sched_stat_runtime` has told of the holder since then, ns; `None` if nothing.
    ran_ns: Option<u64>,
}

/// Every CPU's holder.
#[derive(Debug, Default)]
pub(crate) struct Stays {
    cpus: Vec<Stay>,
    /// What has not been told yet of each task, ns.
    untold_ns: FxHashMap<Tid, i64>,
    switches: u64,
    broken: u64,
}

impl Stays {
    fn cpu(&mut self, cpu: u16) -> &mut Stay {
        let at = usize::from(cpu);
        if at >= self.cpus.len() {
            self.cpus.resize(at + 1, Stay::default());
        }
        &mut self.cpus[at]
    }

    /// Whether a task has a CPU.
    pub(crate) fn has_cpu(&self, tid: Tid) -> bool {
        self.cpus.iter().any(|stay| stay.holder == Some(tid))
    }

    /// The kernel has billed a task.
    pub(crate) fn ran(&mut self, cpu: u16, tid: Tid, runtime_ns: u64) {
        let stay = self.cpu(cpu);
        if stay.holder == Some(tid) {
            stay.ran_ns = Some(stay.ran_ns.unwrap_or(0).saturating_add(runtime_ns));
        }
    }

    /// A CPU goes from one task to another; the time to be told that `prev` was there but did not run, ns.
    pub(crate) fn switch(&mut self, cpu: u16, time_ns: u64, prev: Tid, next: Tid) -> i32 {
        let stay = self.cpu(cpu);
        let whole = stay.holder == Some(prev);
        let is_broken = stay.holder.is_some() && !whole;
        let wall_ns = time_ns.saturating_sub(stay.since_ns);
        let ran_ns = stay.ran_ns.filter(|_| whole);
        *stay = Stay { holder: Some(next), since_ns: time_ns, ran_ns: None };
        self.switches += 1;
        self.broken += u64::from(is_broken);
        let Some(ran_ns) = ran_ns.filter(|_| !prev.is_idle()) else { return 0 };
        if self.untold_ns.len() >= TASKS_MAX {
            self.untold_ns.clear();
        }
        let untold_ns = self.untold_ns.entry(prev).or_insert(0);
        let difference = i64::try_from(i128::from(wall_ns) - i128::from(ran_ns)).unwrap_or(0);
        *untold_ns = untold_ns.saturating_add(difference);
        match i32::try_from(*untold_ns) {
            Ok(told_ns) if untold_ns.abs() >= TOLD_NS => {
                *untold_ns = 0;
                told_ns
            }
            Ok(_) => 0,
            // No stay is as long as that: a damaged record.
            Err(_) => {
                *untold_ns = 0;
                0
            }
        }
    }

    /// Nobody knows who has the CPU.
    pub(crate) fn lost(&mut self, cpu: u16) {
        *self.cpu(cpu) = Stay::default();
    }

    /// The task has ended.
    pub(crate) fn forget(&mut self, tid: Tid) {
        self.untold_ns.remove(&tid);
    }

    /// Which part of the switches leave another task than the one before them on their CPU entered.
    pub(crate) fn broken_share(&self) -> f64 {
        if self.switches == 0 { 0.0 } else { self.broken as f64 / self.switches as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_did_not_count_is_told_once_it_is_enough() {
        let mut stays = Stays::default();
        let mut stay = |start_ns: u64, end_ns: u64, ran_ns: u64| {
            stays.switch(0, start_ns, Tid::IDLE, Tid(1));
            stays.ran(0, Tid(1), ran_ns);
            stays.switch(0, end_ns, Tid(1), Tid::IDLE)
        };
        assert_eq!(stay(0, 100_000, 94_000), 0);
        assert_eq!(stay(200_000, 300_000, 95_000), 11_000);
        assert_eq!(stay(400_000, 500_000, 99_000), 0);
    }

    #[test]
    fn without_the_kernels_account_nothing_is_told() {
        let mut stays = Stays::default();
        stays.switch(0, 0, Tid::IDLE, Tid(1));
        assert_eq!(stays.switch(0, 1_000_000, Tid(1), Tid::IDLE), 0);
        assert!(!stays.has_cpu(Tid(1)));
        assert!(stays.has_cpu(Tid::IDLE));
    }

    #[test]
    fn a_switch_out_of_nowhere_breaks_the_chain() {
        let mut stays = Stays::default();
        stays.switch(0, 0, Tid(1), Tid(2));
        stays.switch(0, 1, Tid(3), Tid(4));
        assert!(stays.broken_share() > 0.4);
        stays.lost(0);
        stays.switch(0, 2, Tid(9), Tid(4));
        assert!(stays.broken_share() < 0.4, "after a loss anybody may have it");
    }
}
