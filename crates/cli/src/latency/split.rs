//! The options `--split` and `--threshold` of `spry latency`: the recorder's BPF programs record the times of
//! each sample's wake-up for the sampler.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use spry_latency::{Culprit, Culprits, Evidence, Look, Place, SampleWatch, Sight, WakeState, Watcher};
use spry_recorder::split::{LateSample, Seat, Span, Split, WakeTimes, When};

/// The running BPF programs, and the culprits that they have found.
pub struct Splitter {
    split: Split,
    culprits: Option<Culprits>,
}

impl Splitter {
    /// Starts the BPF programs. They look for culprits if there is a threshold.
    pub fn start(threshold: Option<Duration>) -> Result<Splitter> {
        let split = Split::start(threshold).context("samples cannot be split")?;
        Ok(Splitter { split, culprits: threshold.map(|_| Culprits::default()) })
    }

    /// The events that this kernel does not show to the BPF programs, in words.
    pub fn lacks(&self) -> Vec<String> {
        let sees = self.split.sees();
        let mut lacks = Vec::new();
        if !sees.interrupt {
            lacks.push(
                "this kernel does not show its timer's interrupt: the parts before need-resched are unseen",
            );
        }
        if !sees.schedule {
            lacks.push(
                "this kernel does not show when schedule() is entered: its switch stands for it, \
                        which comes up to a microsecond later",
            );
        }
        lacks.into_iter().map(str::to_owned).collect()
    }

    /// Gives each of the sampler's threads a place to which the BPF programs write the times of its wake-ups.
    pub fn watcher(&self) -> Watcher {
        let seats = self.split.seats();
        Arc::new(move |_, _| seats().ok().map(|seat| Box::new(SeatWatch(seat)) as Box<dyn SampleWatch>))
    }

    /// Takes the late samples that came since the last call.
    pub fn look(&mut self) {
        let Some(culprits) = &mut self.culprits else { return };
        self.split.late().iter().for_each(|late| culprits.add(&evidence(late)));
    }

    /// The culprits that cost most time first; `None` without a threshold.
    pub fn culprits(&self) -> Option<Vec<Culprit>> {
        self.culprits.as_ref().map(Culprits::list)
    }

    /// How many late samples have no known culprit, in words; `None` if there are none.
    pub fn lost(&self) -> Option<String> {
        let lost = self.split.lost().ok().filter(|&lost| lost > 0)?;
        Some(format!("{lost} late samples found no room: what was in their way is not known"))
    }
}

/// The place of one of the sampler's threads.
struct SeatWatch(Seat);

impl SampleWatch for SeatWatch {
    fn expect(&mut self, due_ns: u64) {
        self.0.expect(due_ns);
    }

    fn sight(&mut self, due_ns: u64) -> Option<Sight> {
        Some(sight(due_ns, self.0.seen()))
    }
}

/// The boundaries of the sample that was due at `due_ns`, from the BPF programs' times of a wake-up.
fn sight(due_ns: u64, seen: WakeTimes) -> Sight {
    // There was no switch to the thread since the sample was due, so the thread had not left its CPU yet.
    let found = if seen.switch_ns < due_ns { WakeState::Running } else { WakeState::Asleep };
    let is_of_this = seen.resched_ns >= due_ns;
    Sight {
        irq_enter_ns: (is_of_this && seen.irq_ns != 0).then_some(seen.irq_ns),
        resched_ns: is_of_this.then_some(seen.resched_ns),
        schedule_ns: (seen.schedule_ns >= seen.resched_ns && is_of_this).then_some(seen.schedule_ns),
        found,
    }
}

fn evidence(late: &LateSample) -> Evidence {
    let look = |when| {
        let look = late.looks.iter().find(|look| look.when == when)?;
        let task = if look.tid.is_idle() { "idle".to_owned() } else { look.comm.to_string() };
        let place =
            if look.kernel_frames > 0 || look.frames.is_empty() { Place::Kernel } else { Place::Program };
        Some(Look { tid: look.tid.0, task, stack: look.frames.to_vec(), place })
    };
    let words = |span: &Span| match span {
        Span::Irq(number) => format!("interrupt {number}"),
        Span::Softirq(softirq) => format!("softirq {}", softirq.name()),
        Span::Timer(function) => format!("timer {function}"),
    };
    Evidence {
        waiter: format!("sampler on CPU {}", late.cpu),
        latency_ns: late.seen.switch_ns.saturating_sub(late.due_ns),
        interrupt_ns: (late.seen.irq_ns != 0).then(|| late.seen.irq_ns.saturating_sub(late.due_ns)),
        at_due: look(When::Due),
        at_late: look(When::Late),
        at_switch: look(When::Switch),
        stretches: late.stretches.iter().map(|stretch| (words(&stretch.span), stretch.length_ns)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: WakeTimes =
        WakeTimes { irq_ns: 1_010, resched_ns: 1_020, schedule_ns: 1_030, switch_ns: 1_040 };

    #[test]
    fn a_whole_wake_up_shows_every_boundary() {
        let found = sight(1_000, SEEN);
        assert_eq!(
            (found.irq_enter_ns, found.resched_ns, found.schedule_ns, found.found),
            (Some(1_010), Some(1_020), Some(1_030), WakeState::Asleep)
        );
    }

    #[test]
    fn times_of_the_sample_before_are_not_taken_for_this_one() {
        let found = sight(2_000, SEEN);
        assert_eq!((found.irq_enter_ns, found.resched_ns, found.schedule_ns), (None, None, None));
        assert_eq!(found.found, WakeState::Running);
    }

    #[test]
    fn a_thread_woken_before_it_had_left_its_cpu_was_running() {
        let found = sight(1_000, WakeTimes { switch_ns: 500, schedule_ns: 0, ..SEEN });
        assert_eq!(
            (found.irq_enter_ns, found.schedule_ns, found.found),
            (Some(1_010), None, WakeState::Running)
        );
    }
}
