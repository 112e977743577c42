//! Time that interrupts and softirqs take from each task, and in total by kind.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spry_timeline::{InterruptKind, Interrupted as Span, Observer, Timeline};
use spry_trace::Group;

use crate::analysis::{About, Analysis, Closing, Hook, Parts, PerTask};
use crate::findings::{Findings, InterruptFinding, Interrupted};
use crate::histogram::Tally;

pub(crate) const ABOUT: About = About {
    name: "stolen",
    tells: "time that interrupts and softirqs take from each task (what the hypervisor takes \
            is in every report)",
    needs: &[Group::Irq],
    uses: &[],
    hooks: &[Hook::Interrupted],
    names_culprits: false,
    make: |_| Parts::observing(StolenTime { tasks: PerTask::default(), kinds: BTreeMap::new() }),
};

struct StolenTime {
    tasks: PerTask<Interrupted>,
    /// The time, and the part of that time that was taken from tasks, ns.
    kinds: BTreeMap<InterruptKind, (Tally, u64)>,
}

impl Observer for StolenTime {
    fn interrupted(&mut self, _: &Timeline, span: &Span) {
        let kind = self.kinds.entry(span.kind).or_default();
        kind.0.add(span.own_ns);
        if let Some(task) = span.holder.task() {
            kind.1 = kind.1.saturating_add(span.own_ns);
            let taken = self.tasks.at(task);
            taken.count += 1;
            match span.kind {
                InterruptKind::Irq(_) => taken.irq_ns += span.own_ns,
                InterruptKind::Softirq(_) => taken.softirq_ns += span.own_ns,
            }
        }
    }
}

impl Analysis for StolenTime {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            finding.interrupted = Some(self.tasks.take(index));
        }
        let kind = |(kind, (time, stolen_ns))| InterruptFinding { kind, time, stolen_ns };
        let mut kinds: Vec<InterruptFinding> = self.kinds.into_iter().map(kind).collect();
        kinds.sort_by_key(|finding| (Reverse(finding.time.sum_ns), finding.kind));
        findings.interrupts = Some(kinds);
    }
}
