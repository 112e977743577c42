//! The drain's state of each task: its policy and priority, and stolen time that is not written yet.

use spry_trace::Tid;
use spry_trace::event::{Affinity, Policy, Prio};
use spry_trace::format::STOLEN_GRAIN_NS;

/// Differences between a task's wall time and its run time are kept back until their sum is the task's run
/// time divided by this. So the trace spends no bytes on less, and its run times are never further off.
const STOLEN_SHARE: u64 = 2000;
/// A sum of differences below this is always kept back, ns.
const STOLEN_MIN_NS: u64 = 10_000;
/// A sum of differences from this on is always written at once, ns.
const STOLEN_MIN_MOST_NS: u64 = 50_000;

const PAGE: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
struct TaskState {
    policy: Policy,
    prio: u8,
    /// The number of CPUs on which the task may run; 0 for all.
    cpus: u16,
    /// The time at which the number was last written, s.
    cpus_told_s: u32,
    owed_ns: i64,
    ran_ns: u64,
}

/// The state of a task until a switch shows another policy or priority.
const ORDINARY: TaskState =
    TaskState { policy: Policy::Other, prio: 120, cpus: 0, cpus_told_s: 0, owed_ns: 0, ran_ns: 0 };

/// A table by tid, in pages that appear when used.
#[derive(Default)]
pub(crate) struct Tasks {
    pages: Vec<Option<Box<[TaskState; PAGE]>>>,
}

impl Tasks {
    fn task(&mut self, tid: Tid) -> &mut TaskState {
        let number = tid.0 as usize;
        let page = number / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        &mut self.pages[page].get_or_insert_with(|| Box::new([ORDINARY; PAGE]))[number % PAGE]
    }

    /// Forgets the task of a tid, since a new task has the tid.
    pub(crate) fn forget(&mut self, tid: Tid) {
        *self.task(tid) = ORDINARY;
    }

    /// The event of a change, if a task's policy or priority differs from the known values.
    #[must_use]
    pub(crate) fn seen(&mut self, tid: Tid, policy: Policy, prio: u8) -> Option<Prio> {
        let task = self.task(tid);
        if (task.policy, task.prio) == (policy, prio) {
            return None;
        }
        (task.policy, task.prio) = (policy, prio);
        Some(Prio { tid, policy, prio })
    }

    /// The event of a task that may run on `cpus` of `all` CPUs, if the number has changed. For a bound task
    /// the event is repeated in each second, for readers that begin in the middle.
    #[must_use]
    pub(crate) fn bound(&mut self, tid: Tid, cpus: u16, all: u16, time_ns: u64) -> Option<Affinity> {
        let (task, now_s) = (self.task(tid), (time_ns / 1_000_000_000) as u32);
        let bound_to = if cpus < all { cpus } else { 0 };
        if task.cpus == bound_to && (bound_to == 0 || task.cpus_told_s == now_s) {
            return None;
        }
        (task.cpus, task.cpus_told_s) = (bound_to, now_s);
        Some(Affinity { tid, cpus: cpus.min(all) })
    }

    /// Whether a task is known to be bound to fewer CPUs.
    pub(crate) fn is_bound_below(&mut self, tid: Tid, cpus: u16) -> bool {
        (1..cpus).contains(&self.task(tid).cpus)
    }

    /// The part of a task's stay on a CPU to write as stolen, ns. The stay took `stay_ns`, and the kernel did
    /// not count `uncounted_ns` of it as the task's run time.
    ///
    /// The kernel bills between its readings of the run queue's clock. They are before the tracepoints by 100
    /// ns, or, where it reuses a wake-up's reading, by many microseconds. So a difference may be below 0
    /// (billed for more than the stay). Small differences are carried over until their sum is large enough.
    #[must_use]
    pub(crate) fn stolen(&mut self, tid: Tid, uncounted_ns: i32, stay_ns: u64) -> i32 {
        let task = self.task(tid);
        task.owed_ns += i64::from(uncounted_ns);
        task.ran_ns += stay_ns;
        let least_ns = (task.ran_ns / STOLEN_SHARE).clamp(STOLEN_MIN_NS, STOLEN_MIN_MOST_NS);
        if task.owed_ns.unsigned_abs() < least_ns {
            return 0;
        }
        task.tell(stay_ns)
    }

    /// The same as [`Tasks::stolen`] for a stay that a hidden switch began. The result is never 0: to the
    /// reader of the trace, another value than 0 means that the length of the stay is known.
    #[must_use]
    pub(crate) fn stolen_before(&mut self, tid: Tid, uncounted_ns: i32, since_switch_ns: u64) -> i32 {
        let task = self.task(tid);
        task.owed_ns += i64::from(uncounted_ns);
        match task.tell(since_switch_ns) {
            0 => {
                task.owed_ns -= i64::from(STOLEN_GRAIN_NS);
                STOLEN_GRAIN_NS
            }
            stolen => stolen,
        }
    }
}

impl TaskState {
    /// Returns the stolen time that the trace gets for a stay, and subtracts it from the stolen time that is
    /// still to be written. It is at most the length of the stay, and a whole number of grains, which take
    /// less room in the trace.
    fn tell(&mut self, stay_ns: u64) -> i32 {
        let stay_ns = i32::try_from(stay_ns).unwrap_or(i32::MAX);
        let stolen = i32::try_from(self.owed_ns).unwrap_or(-i32::MAX).min(stay_ns);
        let stolen = stolen - stolen % STOLEN_GRAIN_NS;
        self.owed_ns -= i64::from(stolen);
        stolen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_class_or_priority_is_told() {
        let mut tasks = Tasks::default();
        let tid = Tid(4_000_000);
        assert_eq!(tasks.seen(tid, Policy::Other, 120), None);
        assert_eq!(tasks.seen(tid, Policy::Fifo, 98), Some(Prio { tid, policy: Policy::Fifo, prio: 98 }));
        assert_eq!(tasks.seen(tid, Policy::Fifo, 98), None);
        tasks.forget(tid);
        assert_eq!(tasks.seen(tid, Policy::Other, 120), None);
    }

    #[test]
    fn an_affinity_is_told_when_it_changes_and_once_a_second() {
        const SECOND_NS: u64 = 1_000_000_000;
        let (mut tasks, tid) = (Tasks::default(), Tid(7));
        let told = |cpus| Some(Affinity { tid, cpus });
        assert_eq!(tasks.bound(tid, 512, 4, SECOND_NS), None, "it may run on all CPUs");
        assert_eq!(tasks.bound(tid, 1, 4, SECOND_NS), told(1));
        assert_eq!(tasks.bound(tid, 1, 4, SECOND_NS + 5), None);
        assert_eq!(tasks.bound(tid, 1, 4, 2 * SECOND_NS), told(1));
        assert_eq!(tasks.bound(tid, 2, 4, 2 * SECOND_NS), told(2));
        assert_eq!(tasks.bound(tid, 4, 4, 2 * SECOND_NS), told(4));
        assert_eq!(tasks.bound(tid, 4, 4, 9 * SECOND_NS), None);
        assert!(!tasks.is_bound_below(tid, 15));
        assert_eq!(tasks.bound(tid, 3, 64, 9 * SECOND_NS), told(3));
        assert!(tasks.is_bound_below(tid, 15) && !tasks.is_bound_below(tid, 3));
        assert_eq!(tasks.bound(tid, u16::MAX, 64, 9 * SECOND_NS), told(64));
    }

    #[test]
    fn small_differences_add_up_and_cancel_out() {
        let mut tasks = Tasks::default();
        let tid = Tid(7);
        const GRAIN: i32 = STOLEN_GRAIN_NS;
        assert_eq!(tasks.stolen(tid, GRAIN, 100_000), 0);
        assert_eq!(tasks.stolen(tid, GRAIN, 100_000), 0);
        assert_eq!(tasks.stolen(tid, GRAIN + 5, 100_000), 3 * GRAIN);
        assert_eq!(tasks.stolen(tid, -GRAIN, 100_000), 0);
        assert_eq!(tasks.stolen(tid, GRAIN, 100_000), 0);
        assert_eq!(tasks.stolen(tid, -3 * GRAIN - 5, 100_000), -3 * GRAIN);
    }

    #[test]
    fn stolen_time_kept_back_grows_with_the_task_s_run_time() {
        let mut tasks = Tasks::default();
        assert_eq!(tasks.stolen(Tid(7), 40_000, 60_000_000), 36_864);
        assert_eq!(tasks.stolen(Tid(7), 40_000, 60_000_000), 0);
        assert_eq!(tasks.stolen(Tid(7), 60_000, 900_000_000), 102_400);
    }

    #[test]
    fn no_more_is_stolen_from_a_stay_than_it_lasted() {
        let mut tasks = Tasks::default();
        assert_eq!(
            tasks.stolen(Tid(7), 12 * STOLEN_GRAIN_NS, 7 * STOLEN_GRAIN_NS as u64),
            7 * STOLEN_GRAIN_NS
        );
        assert_eq!(tasks.stolen(Tid(7), 0, 30_000), 5 * STOLEN_GRAIN_NS);
    }
}
