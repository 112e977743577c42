//! Effective quanta: from getting the CPU to losing it (Etsion, Tsafrir, Feitelson 2003, sections 4 and 6).

use spry_timeline::{Observer, Ran, TaskIndex, Timeline};

use crate::analysis::{About, Analysis, Batch, Closing, Fill, Hook, PerTask};
use crate::findings::{Findings, QuantaFinding};
use crate::histogram::{Budget, Histogram, Tally};

pub(crate) const ABOUT: About = About {
    name: "quanta",
    tells: "effective quanta: how long each task keeps the CPU, and how often a second",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Ran],
    names_culprits: false,
    make: |_| {
        let (batch, budget) = (Batch::new(), Budget::new(1_000));
        Box::new(Quanta { batch, lengths: PerTask::default(), cut: PerTask::default(), budget })
    },
};

struct Quanta {
    batch: Batch<(TaskIndex, u64)>,
    lengths: PerTask<Histogram>,
    cut: PerTask<Tally>,
    budget: Budget,
}

impl Quanta {
    fn count(&mut self) {
        for (task, length_ns) in self.batch.drain() {
            self.lengths.at(task).record(length_ns, &mut self.budget);
        }
    }
}

impl Observer for Quanta {
    fn ran(&mut self, _: &Timeline, ran: &Ran) {
        if !ran.cut.is_whole() {
            self.cut.at(ran.task).add(ran.wall_ns());
        } else if self.batch.put((ran.task, ran.wall_ns())) == Fill::Full {
            self.count();
        }
    }
}

impl Analysis for Quanta {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.count();
        let mut overall = Histogram::dense();
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let (mut lengths, cut) = (self.lengths.take(index), self.cut.take(index));
            lengths.shrink();
            overall.merge(&lengths, &mut self.budget);
            let life_s = finding.life_ns as f64 / 1e9;
            let per_second = if life_s > 0.0 { lengths.count() as f64 / life_s } else { 0.0 };
            finding.quanta = Some(Box::new(QuantaFinding { lengths, per_second, cut }));
        }
        findings.overall.quanta = Some(overall);
    }
}
