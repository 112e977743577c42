//! Statistics of the scheduler, summed over CPUs.

use super::skel::types;
use crate::actuator::Class;

/// Statistics of a class since the scheduler was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassStats {
    /// CPU time of the class' tasks, ns.
    pub ran_ns: u64,
    /// The number of times that tasks of the class got a CPU after a wait.
    pub waits: u64,
    /// The sum of the waits of the class' tasks for a CPU, ns.
    pub waited_ns: u64,
}

/// Statistics since the scheduler was loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// The statistics of each class, in the order of classes.
    pub classes: Vec<(Class, ClassStats)>,
    /// The number of turns that classes had while a higher class kept them waiting.
    pub below_turns: u64,
    /// The number of these turns that ended early because a task of a higher class woke.
    pub early_yields: u64,
    /// The number of times that a woken task preempted the running task at once.
    pub preemptions: u64,
    /// The number of times that a CPU was made to decide, because of a task or by its timer.
    pub kicks: u64,
    /// The number of times that a CPU's timer was set.
    pub timers: u64,
    /// The corrected errors in the counts of queues, in tasks. The number stays 0 on one CPU, where the
    /// kernel reports each task that it takes out of a queue.
    pub miscounted: u64,
    /// The number of times that a task parked for long (because of `cpu.max`) got a CPU for no time.
    pub passed_by: u64,
    /// The number of times that a task parked inside the kernel got a CPU for a moment.
    pub passed_inside: u64,
    /// The run time of a task that gets a CPU for no time, ns.
    pub pass_ns: u64,
    /// The longest run of the scheduler's housekeeping, ns.
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
        passed_inside: bss.passed_inside,
        pass_ns: bss.pass_ns,
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
