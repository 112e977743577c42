//! Dispatch latency: from run-queue insertion or preemption to getting the CPU, and the share of runnable
//! time spent waiting (thesis, section 6.3.1).

use crate::analysis::{About, Closing, Counter, Hook, Parts, PerTask};
use crate::batch::{After, Wait, Whole};
use crate::findings::{DispatchFinding, Findings};
use crate::histogram::{Budget, Histogram};

pub(crate) const ABOUT: About = About {
    name: "dispatch",
    tells: "dispatch latency: from run-queue insertion or preemption to the CPU; \
            share of runnable time waiting",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Waits],
    names_culprits: false,
    make: |_| Parts::counting(Dispatch { tasks: PerTask::default(), budget: Budget::new(2_000) }),
};

/// The head of each of the two histograms fills one cache line.
#[derive(Default)]
#[repr(align(64))]
struct TaskWaits {
    wakeup: Histogram,
    preemption: Histogram,
}

struct Dispatch {
    tasks: PerTask<TaskWaits>,
    budget: Budget,
}

impl Counter for Dispatch {
    fn waits(&mut self, waits: &[Wait]) {
        for wait in waits.iter().filter(|wait| wait.whole == Whole::Yes) {
            let task = self.tasks.at(wait.task);
            let histogram = match wait.after {
                After::Wakeup | After::Birth => &mut task.wakeup,
                After::Preemption => &mut task.preemption,
                After::Unknown => continue,
            };
            histogram.record(wait.wait_ns, &mut self.budget);
        }
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        let mut overall = Histogram::dense();
        // `all` is as precise as the two histograms it is made of: it needs no dense table if they have none.
        let mut none = Budget::new(0);
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let TaskWaits { mut wakeup, mut preemption } = self.tasks.take(index);
            wakeup.shrink();
            preemption.shrink();
            let mut all = wakeup.clone();
            all.merge(&preemption, &mut none);
            all.shrink();
            overall.merge(&all, &mut none);
            let wait_ns = finding.runnable_wait_ns.unwrap_or(0);
            let runnable_ns = wait_ns
                .saturating_add(finding.runtime_ns)
                .saturating_add_signed(finding.stolen_ns.unwrap_or(0));
            let wait_share = (runnable_ns > 0).then(|| wait_ns as f64 / runnable_ns as f64);
            let (wakeup, all) = (Some(wakeup), Some(all));
            finding.dispatch = Some(Box::new(DispatchFinding { wakeup, preemption, all, wait_share }));
        }
        findings.overall.dispatch = Some(overall);
    }
}
