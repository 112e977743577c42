//! The CPUs: interrupt time, ticks and migrations of each CPU, every task's share of each CPU, and a picture
//! of the CPUs over time.

use spry_timeline::{Idled, Interrupted, Migrated, Observer, Ran, Ticked, Timeline};
use spry_trace::Group;

use crate::analysis::{About, Analysis, Closing, Counter, Hook, Parts, PerTask, Setup};
use crate::batch::Run;
use crate::drawing::Canvas;
use crate::findings::{CpuShare, Findings};

pub(crate) const ABOUT: About = About {
    name: "cpu",
    tells: "CPU distribution: busy, idle and interrupt time, each task's share of each CPU, \
            migrations, time line",
    needs: &[],
    uses: &[(Group::Irq, "cpus[].irq_ns")],
    hooks: &[Hook::Ran, Hook::Runs, Hook::Idled, Hook::Migrated, Hook::Ticked, Hook::Interrupted],
    names_culprits: false,
    make: |setup| Parts {
        observer: Some(Box::new(Cpus::new(setup))),
        counter: Some(Box::new(TaskShares(PerTask::default()))),
    },
};

/// The most CPUs with a share of their own for one task, beside its first CPU.
const SHARES_MAX: usize = 16;

#[derive(Clone, Copy, Default)]
struct Counts {
    irq_ns: u64,
    ticks: u64,
    migrations_in: u64,
    migrations_out: u64,
}

/// A task's run time on the CPU where it ran first, and on other CPUs; a time is below 0 only for a moment.
#[derive(Default)]
struct Shares {
    first: Option<u16>,
    first_ns: i64,
    others: Vec<(u16, i64)>,
    rest_ns: i64,
}

/// Every task's shares of the CPUs.
struct TaskShares(PerTask<Shares>);

struct Cpus {
    counts: Vec<Counts>,
    canvas: Canvas,
}

impl Cpus {
    fn new(setup: &Setup<'_>) -> Cpus {
        let from_ns = setup.header.start_ns.saturating_add(setup.selection.from_ns);
        Cpus { counts: Vec::new(), canvas: Canvas::new(from_ns, setup.header.cpus) }
    }

    fn cpu(&mut self, cpu: u16) -> &mut Counts {
        let at = usize::from(cpu);
        if at >= self.counts.len() {
            self.counts.resize(at + 1, Counts::default());
        }
        &mut self.counts[at]
    }
}

impl Shares {
    #[inline]
    fn add(&mut self, cpu: u16, run_ns: i64) {
        if *self.first.get_or_insert(cpu) == cpu {
            self.first_ns += run_ns;
        } else if let Some(share) = self.others.iter_mut().find(|share| share.0 == cpu) {
            share.1 += run_ns;
        } else if self.others.len() < SHARES_MAX {
            self.others.reserve_exact(1);
            self.others.push((cpu, run_ns));
        } else {
            self.rest_ns += run_ns;
        }
    }

    fn finding(mut self) -> Box<[CpuShare]> {
        self.others.extend(self.first.map(|cpu| (cpu, self.first_ns)));
        self.others.sort_unstable();
        let share = |cpu, run_ns: i64| CpuShare { cpu, runtime_ns: run_ns.try_into().unwrap_or(0) };
        let kept = self.others.into_iter().map(|(cpu, run_ns)| share(Some(cpu), run_ns));
        let rest = share(None, self.rest_ns);
        kept.chain((rest.runtime_ns > 0).then_some(rest)).collect()
    }
}

impl Observer for Cpus {
    fn ran(&mut self, _: &Timeline, ran: &Ran) {
        self.canvas.ran(ran);
    }

    fn idled(&mut self, _: &Timeline, idled: &Idled) {
        self.canvas.idled(idled);
    }

    fn migrated(&mut self, _: &Timeline, migrated: &Migrated) {
        self.cpu(migrated.from_cpu).migrations_out += 1;
        self.cpu(migrated.to_cpu).migrations_in += 1;
    }

    fn ticked(&mut self, _: &Timeline, ticked: &Ticked) {
        self.cpu(ticked.cpu).ticks += 1;
    }

    fn interrupted(&mut self, _: &Timeline, interrupted: &Interrupted) {
        self.cpu(interrupted.cpu).irq_ns += interrupted.own_ns;
    }
}

impl Counter for TaskShares {
    fn runs(&mut self, runs: &[Run]) {
        for run in runs {
            self.0.at(run.task).add(run.cpu, run.wall_ns() as i64 - run.stolen_ns);
        }
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            finding.cpu_shares = Some(self.0.take(index).finding());
        }
    }
}

impl Analysis for Cpus {
    fn finish(self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        for (at, finding) in findings.cpus.iter_mut().enumerate() {
            let counts = self.counts.get(at).copied().unwrap_or_default();
            finding.irq_ns = closing.groups.contains(Group::Irq).then_some(counts.irq_ns);
            finding.ticks = Some(counts.ticks);
            finding.migrations_in = Some(counts.migrations_in);
            finding.migrations_out = Some(counts.migrations_out);
        }
        findings.drawing = Some(self.canvas.finish(closing, findings.cpus.len()));
    }
}
