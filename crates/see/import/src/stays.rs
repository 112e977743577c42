//! The current task of each CPU, and the part of its stay that the kernel did not count as run time.

use rustc_hash::FxHashMap;
use spry_trace::Tid;

/// Differences between a task's wall time and its run time are reported once their sum reaches this, ns.
const TOLD_NS: u64 = 10_000;

/// The most tasks with stored differences; with more tasks, all differences begin anew.
const TASKS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Stay {
    holder: Option<Tid>,
    since_ns: u64,
}

/// The counts of broken switches: a broken switch is not away from the task to which the previous switch on
/// its CPU went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BrokenSwitches {
    /// The number of broken switches.
    pub(crate) broken: u64,
    /// The number of all switches.
    pub(crate) switches: u64,
}

impl BrokenSwitches {
    /// The share of broken switches, 0 to 1.
    pub(crate) fn share(self) -> f64 {
        if self.switches == 0 { 0.0 } else { self.broken as f64 / self.switches as f64 }
    }
}

/// The current task of every CPU, and the run time billed to tasks.
#[derive(Debug, Default)]
pub(crate) struct Stays {
    cpus: Vec<Stay>,
    /// Per task: the run time billed by `sched_stat_runtime` since the task last left a CPU, ns. Other CPUs
    /// may bill a task, too.
    billed_ns: FxHashMap<Tid, u64>,
    /// Per task: the time with a CPU that did not count as run time and has not been reported yet, ns.
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

    /// Notes that the kernel has billed run time to a task, ns.
    pub(crate) fn ran(&mut self, tid: Tid, runtime_ns: u64) {
        if self.billed_ns.len() >= TASKS_MAX {
            self.billed_ns.clear();
        }
        let billed_ns = self.billed_ns.entry(tid).or_insert(0);
        *billed_ns = billed_ns.saturating_add(runtime_ns);
    }

    /// Notes that a CPU goes from `prev` to `next`. Returns the stolen time to report now: the time for which
    /// `prev` had the CPU but did not run, ns. If the switch to `prev` was not seen, its stay counts from the
    /// last switch on the CPU.
    pub(crate) fn switch(&mut self, cpu: u16, time_ns: u64, prev: Tid, next: Tid) -> i32 {
        let billed_ns = self.billed_ns.remove(&prev);
        let stay = std::mem::replace(self.cpu(cpu), Stay { holder: Some(next), since_ns: time_ns });
        self.switches += 1;
        let is_broken = stay.holder.is_some_and(|holder| holder != prev);
        self.broken += u64::from(is_broken);
        let (Some(billed_ns), Some(_)) = (billed_ns.filter(|_| !prev.is_idle()), stay.holder) else {
            return 0;
        };
        let wall_ns = time_ns.saturating_sub(stay.since_ns);
        let difference_ns = i64::try_from(i128::from(wall_ns) - i128::from(billed_ns)).unwrap_or(0);
        if is_broken {
            return i32::try_from(difference_ns).unwrap_or(0);
        }
        if self.untold_ns.len() >= TASKS_MAX {
            self.untold_ns.clear();
        }
        let untold_ns = self.untold_ns.entry(prev).or_insert(0);
        *untold_ns = untold_ns.saturating_add(difference_ns);
        if untold_ns.unsigned_abs() < TOLD_NS {
            return 0;
        }
        // A difference that does not fit is dropped: no stay is so long, so the record is damaged.
        i32::try_from(std::mem::take(untold_ns)).unwrap_or(0)
    }

    /// Notes that the current task of the CPU is unknown from now on.
    pub(crate) fn lost(&mut self, cpu: u16) {
        *self.cpu(cpu) = Stay::default();
    }

    /// Forgets a task that has exited.
    pub(crate) fn forget(&mut self, tid: Tid) {
        self.untold_ns.remove(&tid);
        self.billed_ns.remove(&tid);
    }

    /// The counts of broken switches so far.
    pub(crate) fn broken(&self) -> BrokenSwitches {
        BrokenSwitches { broken: self.broken, switches: self.switches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncounted_time_is_reported_once_it_is_enough() {
        let mut stays = Stays::default();
        let mut stay = |start_ns: u64, end_ns: u64, ran_ns: u64| {
            stays.switch(0, start_ns, Tid::IDLE, Tid(1));
            stays.ran(Tid(1), ran_ns);
            stays.switch(0, end_ns, Tid(1), Tid::IDLE)
        };
        assert_eq!(stay(0, 100_000, 94_000), 0);
        assert_eq!(stay(200_000, 300_000, 95_000), 11_000);
        assert_eq!(stay(400_000, 500_000, 99_000), 0);
    }

    #[test]
    fn a_switch_gives_the_run_time_of_a_task_that_came_unseen() {
        let mut stays = Stays::default();
        stays.switch(0, 0, Tid(1), Tid(2));
        stays.ran(Tid(3), 30_000);
        assert_eq!(stays.switch(0, 100_000, Tid(3), Tid::IDLE), 70_000);
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
        assert!(stays.broken().share() > 0.4);
        stays.lost(0);
        stays.switch(0, 2, Tid(9), Tid(4));
        assert!(stays.broken().share() < 0.4, "after a loss anybody may have it");
    }
}
