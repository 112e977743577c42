//! A sample's latency split into the article's four components (Williams 2002, Components of Response Time).

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// Observes the time between a sample's due time and its thread running again.
///
/// A sampling thread owns one watch. It calls the watch right after each sample's clock reading, at its own
/// priority, so the watch must neither wait nor allocate.
pub trait SampleWatch: Send {
    /// Takes the due time of the next sample, right before the thread sleeps, ns of `CLOCK_MONOTONIC`.
    fn expect(&mut self, due_ns: u64);

    /// The times seen of the sample that was due at `due_ns`, ns of `CLOCK_MONOTONIC`; `None` if
    /// nothing was seen.
    fn sight(&mut self, due_ns: u64) -> Option<Sight>;
}

/// The state in which the wake-up found its thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WakeState {
    /// The thread was asleep: it had to be scheduled.
    #[default]
    Asleep,
    /// The thread was still on its CPU, before or after its attempt to sleep: it needed no scheduling.
    Running,
}

/// The times between a sample's due time and its thread running, ns of `CLOCK_MONOTONIC`; a time that was not
/// seen is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sight {
    /// Entry of the interrupt that handled the timer.
    pub irq_enter_ns: Option<u64>,
    /// The time at which need-resched was set for this thread.
    pub resched_ns: Option<u64>,
    /// Entry of the `schedule()` that chose this thread.
    pub schedule_ns: Option<u64>,
    /// The state in which the wake-up found its thread.
    pub found: WakeState,
}

/// The parts of one sample's latency, ns; they add up to it exactly.
///
/// A part is `None` unless both of its ends were seen; its time is in `unseen_ns` then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// Expiry to entry of the interrupt (the article's interrupt latency).
    pub timer_ns: Option<u64>,
    /// The interrupt's work until need-resched (interrupt handler duration).
    pub irq_ns: Option<u64>,
    /// Need-resched to `schedule()` (scheduler latency).
    pub preemption_ns: Option<u64>,
    /// `schedule()` to running in user space (scheduling duration).
    pub scheduling_ns: Option<u64>,
    /// The time that belongs to no part with both ends seen.
    pub unseen_ns: u64,
}

impl Parts {
    /// Splits the time from when a sample was due to when its thread read the clock. If the thread read the
    /// clock before that, the parts add up to 0.
    ///
    /// Times that are out of order:
    /// - An interrupt that was entered before the sample was due was at work when the timer expired. The
    ///   timer's part is 0, and the interrupt's work counts from when the sample was due.
    /// - A boundary that lies before the previous boundary, or after the thread ran, belongs to another
    ///   wake-up: it counts as not seen.
    /// - A wake-up that found its thread still running needs no scheduling. The time after the interrupt's
    ///   entry is the interrupt's work, and the two parts after it are 0.
    #[must_use]
    pub fn of(due_ns: u64, sight: Sight, woken_ns: u64) -> Parts {
        let woken_ns = woken_ns.max(due_ns);
        let irq = sight.irq_enter_ns.map(|at_ns| at_ns.max(due_ns)).filter(|&at_ns| at_ns <= woken_ns);
        if sight.found == WakeState::Running {
            return Parts {
                timer_ns: irq.map(|at_ns| at_ns - due_ns),
                irq_ns: irq.map(|at_ns| woken_ns - at_ns),
                preemption_ns: Some(0),
                scheduling_ns: Some(0),
                unseen_ns: if irq.is_some() { 0 } else { woken_ns - due_ns },
            };
        }
        let mut last_ns = irq.unwrap_or(due_ns);
        let mut in_order = |at_ns: Option<u64>| {
            let seen = at_ns.filter(|&at_ns| at_ns >= last_ns && at_ns <= woken_ns);
            last_ns = seen.unwrap_or(last_ns);
            seen
        };
        let (resched, schedule) = (in_order(sight.resched_ns), in_order(sight.schedule_ns));
        let between = |from: Option<u64>, to: Option<u64>| Some(to? - from?);
        let mut parts = Parts {
            timer_ns: between(Some(due_ns), irq),
            irq_ns: between(irq, resched),
            preemption_ns: between(resched, schedule),
            scheduling_ns: between(schedule, Some(woken_ns)),
            unseen_ns: 0,
        };
        parts.unseen_ns = woken_ns - due_ns - parts.sum_ns();
        parts
    }

    /// The sum of all parts, ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        let seen = [self.timer_ns, self.irq_ns, self.preemption_ns, self.scheduling_ns];
        seen.into_iter().flatten().sum::<u64>() + self.unseen_ns
    }
}

/// The parts' distributions over all samples that were split.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PartHistograms {
    /// The distribution of `timer_ns`, over the samples in which it was seen.
    pub timer_ns: Histogram,
    /// The distribution of `irq_ns`, over the samples in which it was seen.
    pub irq_ns: Histogram,
    /// The distribution of `preemption_ns`, over the samples in which it was seen.
    pub preemption_ns: Histogram,
    /// The distribution of `scheduling_ns`, over the samples in which it was seen.
    pub scheduling_ns: Histogram,
    /// The distribution of `unseen_ns`, over all samples.
    pub unseen_ns: Histogram,
}

impl PartHistograms {
    /// Names and distributions, in the order of time.
    pub fn named(&self) -> [(&'static str, &Histogram); 5] {
        [
            ("timer_ns", &self.timer_ns),
            ("irq_ns", &self.irq_ns),
            ("preemption_ns", &self.preemption_ns),
            ("scheduling_ns", &self.scheduling_ns),
            ("unseen_ns", &self.unseen_ns),
        ]
    }

    /// Adds the samples of other distributions.
    pub fn merge(&mut self, other: &PartHistograms) {
        self.timer_ns.merge(&other.timer_ns);
        self.irq_ns.merge(&other.irq_ns);
        self.preemption_ns.merge(&other.preemption_ns);
        self.scheduling_ns.merge(&other.scheduling_ns);
        self.unseen_ns.merge(&other.unseen_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(irq: Option<u64>, resched: Option<u64>, schedule: Option<u64>) -> Sight {
        Sight { irq_enter_ns: irq, resched_ns: resched, schedule_ns: schedule, found: WakeState::Asleep }
    }

    fn told(parts: Parts) -> ([Option<u64>; 4], u64) {
        ([parts.timer_ns, parts.irq_ns, parts.preemption_ns, parts.scheduling_ns], parts.unseen_ns)
    }

    #[test]
    fn four_boundaries_that_were_seen_leave_nothing_unseen() {
        let parts = Parts::of(100, sight(Some(110), Some(130), Some(160)), 200);
        assert_eq!(told(parts), ([Some(10), Some(20), Some(30), Some(40)], 0));
    }

    #[test]
    fn parts_add_up_to_the_latency_whatever_was_seen() {
        let times = [
            None,
            Some(0),
            Some(90),
            Some(100),
            Some(120),
            Some(150),
            Some(180),
            Some(200),
            Some(250),
            Some(u64::MAX),
        ];
        for irq in times {
            for resched in times {
                for schedule in times {
                    for found in [WakeState::Asleep, WakeState::Running] {
                        let sight = Sight { found, ..sight(irq, resched, schedule) };
                        assert_eq!(Parts::of(100, sight, 200).sum_ns(), 100, "{sight:?}");
                        assert_eq!(Parts::of(100, sight, 95).sum_ns(), 0, "{sight:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn parts_beside_a_missing_boundary_are_unseen() {
        let without_irq = Parts::of(100, sight(None, Some(130), Some(160)), 200);
        assert_eq!(told(without_irq), ([None, None, Some(30), Some(40)], 30));
        let without_resched = Parts::of(100, sight(Some(110), None, Some(160)), 200);
        assert_eq!(told(without_resched), ([Some(10), None, None, Some(40)], 50));
        let without_schedule = Parts::of(100, sight(Some(110), Some(130), None), 200);
        assert_eq!(told(without_schedule), ([Some(10), Some(20), None, None], 70));
        assert_eq!(told(Parts::of(100, Sight::default(), 200)), ([None; 4], 100));
    }

    #[test]
    fn an_interrupt_from_before_the_due_time_has_a_timer_part_of_0() {
        let parts = Parts::of(100, sight(Some(60), Some(130), Some(160)), 200);
        assert_eq!(told(parts), ([Some(0), Some(30), Some(30), Some(40)], 0));
    }

    #[test]
    fn a_need_resched_from_before_the_interrupt_is_another_wake_ups() {
        let parts = Parts::of(100, sight(Some(120), Some(110), Some(160)), 200);
        assert_eq!(told(parts), ([Some(20), None, None, Some(40)], 40));
        let before_due = Parts::of(100, sight(None, Some(90), Some(160)), 200);
        assert_eq!(told(before_due), ([None, None, None, Some(40)], 60));
    }

    #[test]
    fn a_schedule_outside_the_wake_up_belongs_to_another_one() {
        let before = Parts::of(100, sight(Some(110), Some(130), Some(120)), 200);
        assert_eq!(told(before), ([Some(10), Some(20), None, None], 70));
        let after = Parts::of(100, sight(Some(110), Some(130), Some(201)), 200);
        assert_eq!(told(after), ([Some(10), Some(20), None, None], 70));
    }

    #[test]
    fn a_wake_up_of_a_running_thread_has_no_scheduling_part() {
        let running = Sight { found: WakeState::Running, ..sight(Some(110), Some(50), None) };
        assert_eq!(told(Parts::of(100, running, 200)), ([Some(10), Some(90), Some(0), Some(0)], 0));
        let blind = Sight { found: WakeState::Running, ..Sight::default() };
        assert_eq!(told(Parts::of(100, blind, 200)), ([None, None, Some(0), Some(0)], 100));
    }

    #[test]
    fn a_clock_read_before_the_due_time_has_no_latency_to_split() {
        let parts = Parts::of(100, sight(Some(110), Some(120), Some(130)), 90);
        assert_eq!(parts.sum_ns(), 0);
    }
}
