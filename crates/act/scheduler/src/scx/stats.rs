//! What the scheduler counts, summed over CPUs.

use super::skel::types;
use crate::actuator::Class;

/// What a class did since the scheduler was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassStats {
    /// CPU time of the class' tasks, ns.
    pub ran_ns: u64,
    /// How often a task of the class got the CPU; before each time it had waited.
    pub waits: u64,
    /// How long tasks of the class waited for a CPU in all, ns.
    pub waited_ns: u64,
}

/// What the scheduler did since it was loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// What each class did, in the order of classes.
    pub classes: Vec<(Class, ClassStats)>,
    /// How many turns the classes below a busy class had.
    pub below_turns: u64,
    /// How many of these turns ended early for a task of a higher class.
    pub early_yields: u64,
    /// How often a woken task took its CPU at once.
    pub preemptions: u64,
    /// How often a CPU was sent through the scheduler, for a task of another CPU or by the timer.
    pub kicks: u64,
    /// How often the timer was set.
    pub timers: u64,
    /// Tasks that were counted in queues and were not there; 0 where the kernel tells of each task that is
    /// taken out.
    pub miscounted: u64,
    /// How often a task that waited long for its cgroup's next period was given a CPU for no time.
    pub passed_by: u64,
    /// The longest time for which housekeeping kept its CPU, ns.
    pub housekeeping_longest_ns: u64,
}

const CLASSES: [(Class, usize); 5] =
    [(Class::Daemon, 2), (Class::Kthread, 3), (Class::Interactive, 4), (Class::Other, 5), (Class::Idle, 6)];

pub(super) fn sum(bss: &types::bss) -> Stats {
    let classes = CLASSES.map(|(class, _)| (class, ClassStats::default())).to_vec();
    let mut all = Stats {
        classes,
        miscounted: bss.miscounted,
        passed_by: bss.passed_by,
        housekeeping_longest_ns: bss.housekeeping_longest_ns,
        ..Stats::default()
    };
    for cpu in &bss.cpus {
        for ((_, sum), (_, number)) in all.classes.iter_mut().zip(CLASSES) {
            let one = &cpu.classes[number];
            sum.ran_ns += one.ran_ns;
            sum.waits += one.waits;
            sum.waited_ns += one.waited_ns;
        }
        all.below_turns += cpu.below_turns;
        all.early_yields += cpu.early_yields;
        all.preemptions += cpu.preemptions;
        all.kicks += cpu.kicks;
        all.timers += cpu.timers;
    }
    all
}
