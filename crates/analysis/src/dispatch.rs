//! Dispatch latency: from run-queue insertion or preemption to getting the CPU, and the share of runnable time
//! spent waiting (thesis, section 6.3.1).

use spry_timeline::{Observer, TaskIndex, Timeline, WaitCause, Waited};

use crate::analysis::{About, Analysis, Batch, Closing, Fill, Hook, PerTask};
use crate::findings::{DispatchFinding, Findings};
use crate::histogram::{Budget, Histogram};

pub(crate) const ABOUT: About = About {
    name: "dispatch",
    tells: "dispatch latency: from run-queue insertion or preemption to the CPU; share of runnable time waiting",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Waited],
    names_culprits: false,
    make: |_| {
        Box::new(Dispatch { batch: Batch::new(), tasks: PerTask::default(), budget: Budget::new(2_000) })
    },
};

#[derive(Default)]
struct Task {
    wakeup: Histogram,
    preemption: Histogram,
}

struct Dispatch {
    batch: Batch<(TaskIndex, After, u64)>,
    tasks: PerTask<Task>,
    budget: Budget,
}

/// What a wait came after.
#[derive(Clone, Copy)]
enum After {
    Wakeup,
    Preemption,
}

impl Dispatch {
    fn count(&mut self) {
        for (task, after, wait_ns) in self.batch.drain() {
            let task = self.tasks.at(task);
            let histogram = match after {
                After::Wakeup => &mut task.wakeup,
                After::Preemption => &mut task.preemption,
            };
            histogram.record(wait_ns, &mut self.budget);
        }
    }
}

impl Observer for Dispatch {
    fn waited(&mut self, _: &Timeline, waited: &Waited) {
        let after = match waited.cause {
            _ if !waited.cut.is_whole() => return,
            WaitCause::Woken { .. } | WaitCause::New => After::Wakeup,
            WaitCause::Preempted { .. } => After::Preemption,
            WaitCause::Unknown => return,
        };
        if self.batch.put((waited.task, after, waited.end_ns - waited.start_ns)) == Fill::Full {
            self.count();
        }
    }
}

impl Analysis for Dispatch {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.count();
        let mut overall = Histogram::dense();
        // `all` is as precise as the two it is made of: it needs no dense table that they have not earned.
        let mut none = Budget::new(0);
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let Task { mut wakeup, mut preemption } = self.tasks.take(index);
            wakeup.shrink();
            preemption.shrink();
            let mut all = wakeup.clone();
            all.merge(&preemption, &mut none);
            all.shrink();
            overall.merge(&all, &mut none);
            let runnable_ns = finding.runnable_wait_ns + finding.runtime_ns + finding.stolen_ns;
            let wait_share = (runnable_ns > 0).then(|| finding.runnable_wait_ns as f64 / runnable_ns as f64);
            finding.dispatch = Some(Box::new(DispatchFinding { wakeup, preemption, all, wait_share }));
        }
        findings.overall.dispatch = Some(overall);
    }
}
