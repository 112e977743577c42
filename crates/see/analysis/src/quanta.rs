//! Effective quanta: from getting the CPU to losing it (Etsion, Tsafrir, Feitelson 2003, sections 4 and 6).

use crate::analysis::{About, Closing, Counter, Hook, Parts, PerTask};
use crate::batch::{Run, Whole};
use crate::findings::{Findings, QuantaFinding};
use crate::histogram::{Budget, Histogram, Tally};

pub(crate) const ABOUT: About = About {
    name: "quanta",
    tells: "effective quanta: how long each task keeps the CPU, and how often a second",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Runs],
    names_culprits: false,
    make: |_| {
        let budget = Budget::new(1_000);
        Parts::counting(Quanta { lengths: PerTask::default(), cut: PerTask::default(), budget })
    },
};

struct Quanta {
    lengths: PerTask<Lengths>,
    cut: PerTask<Tally>,
    budget: Budget,
}

/// The head of the histogram fills one cache line.
#[derive(Default)]
#[repr(align(64))]
struct Lengths(Histogram);

impl Counter for Quanta {
    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            match run.whole {
                Whole::Yes => self.lengths.at(run.task).0.record(run.wall_ns(), &mut self.budget),
                Whole::No => self.cut.at(run.task).add(run.wall_ns()),
            }
        }
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        let mut overall = Histogram::dense();
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let (mut lengths, cut) = (self.lengths.take(index).0, self.cut.take(index));
            lengths.shrink();
            overall.merge(&lengths, &mut self.budget);
            let life_ns = Some(finding.life_ns).filter(|&life_ns| life_ns > 0);
            let per_second = life_ns.map(|life_ns| lengths.count() as f64 / (life_ns as f64 / 1e9));
            finding.quanta = Some(Box::new(QuantaFinding { lengths, per_second, cut }));
        }
        findings.overall.quanta = Some(overall);
    }
}
