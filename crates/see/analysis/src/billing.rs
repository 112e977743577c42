//! Billing: the time that sampling at a clock tick would have billed each task, and the quanta that it would
//! have missed (Etsion, Tsafrir, Feitelson 2003, section 4).

use spry_timeline::Ticked;
use spry_trace::Header;

use crate::analysis::{About, Closing, Counter, Hook, Parts, PerTask, Setup};
use crate::batch::{Run, Whole};
use crate::findings::{BillingFinding, BillingSteps, Findings, TaskFinding};
use crate::phases::{Grid, Hits, period_ns, ticks_between};
use crate::steps::{Place, Tables};

/// The most tasks for which billing steps are shown.
const STEPS_SHOWN: usize = 12;

pub(crate) const ABOUT: About = About {
    name: "billing",
    tells: "what tick sampling bills each task at several rates, and the quanta that it misses",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Runs, Hook::Ticks],
    names_culprits: false,
    make: |setup| Parts::counting(Billing::new(setup)),
};

#[derive(Debug, Default)]
struct TaskBilling {
    hits: Hits,
    whole: u64,
    /// Ticks that the trace recorded while the task ran.
    ticks: u64,
    /// Whether the task ran on a CPU with an unknown tick phase.
    unphased: bool,
    steps: Place,
}

struct TickedCpu {
    grids: Vec<Grid>,
    is_phased: bool,
}

struct Billing {
    header: Header,
    start_ns: u64,
    rates_hz: Vec<u32>,
    cpus: Vec<TickedCpu>,
    tasks: PerTask<TaskBilling>,
    steps: Tables,
    has_ticks: bool,
}

impl Billing {
    fn new(setup: &Setup<'_>) -> Billing {
        let mut billing = Billing {
            header: setup.header.clone(),
            start_ns: setup.header.start_ns,
            rates_hz: setup.options.rates_hz.clone(),
            cpus: Vec::new(),
            tasks: PerTask::default(),
            steps: Tables::default(),
            has_ticks: false,
        };
        (0..setup.header.cpus).for_each(|_| billing.add_cpu());
        billing
    }

    fn add_cpu(&mut self) {
        let phase_ns = self.header.tick_phase_ns.get(self.cpus.len()).copied().flatten();
        let grid = |&hz: &u32| Grid::new(hz, phase_ns.unwrap_or(0), self.start_ns);
        let grids = self.rates_hz.iter().map(grid).collect();
        self.cpus.push(TickedCpu { grids, is_phased: phase_ns.is_some() });
    }
}

impl Billing {
    #[inline]
    fn ran(&mut self, run: &Run) {
        while usize::from(run.cpu) >= self.cpus.len() {
            self.add_cpu();
        }
        let cpu = &self.cpus[usize::from(run.cpu)];
        let task = self.tasks.at(run.task);
        task.whole += u64::from(run.whole == Whole::Yes);
        task.unphased |= !cpu.is_phased;
        let rates = cpu.grids.len();
        let counted = match run.whole {
            Whole::Yes if cpu.is_phased => {
                self.steps.count(&mut task.steps, task.whole, run.wall_ns(), rates)
            }
            _ => None,
        };
        for (rate, grid) in cpu.grids.iter().enumerate() {
            let start = grid.spot(run.start_ns);
            let end = grid.slot_after(start, run.wall_ns());
            if end != start.slot {
                if let Some(counted) = counted {
                    self.steps.hit(counted, rate, ticks_between(start.slot, end));
                }
                task.hits.add(rate, rates, start.slot, end, run.whole);
            }
        }
    }
}

impl Counter for Billing {
    fn runs(&mut self, runs: &[Run]) {
        runs.iter().for_each(|run| self.ran(run));
    }

    fn ticks(&mut self, ticks: &[Ticked]) {
        self.has_ticks |= !ticks.is_empty();
        for task in ticks.iter().filter_map(|tick| tick.holder.task()) {
            self.tasks.at(task).ticks += 1;
        }
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        let mut steps = Vec::new();
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            let task = self.tasks.take(index);
            if steps.len() < STEPS_SHOWN * self.rates_hz.len() {
                steps.extend(self.steps_of(finding, task.steps));
            }
            let rates = self.rates_hz.iter().enumerate();
            finding.billing =
                Some(rates.map(|(at, &hz)| self.bill(&task, at, hz, finding.runtime_ns)).collect());
        }
        findings.billing_steps = self.cpus.iter().any(|cpu| cpu.is_phased).then_some(steps);
    }
}

impl Billing {
    /// The task's billing steps at each rate, if the task has a table.
    fn steps_of(&self, finding: &TaskFinding, place: Place) -> impl Iterator<Item = BillingSteps> {
        let who = finding.who;
        let rates = self.rates_hz.iter().enumerate();
        rates.filter_map(move |(at, &hz)| Some(BillingSteps { who, hz, cells: self.steps.cells(place, at)? }))
    }

    fn bill(&self, task: &TaskBilling, at: usize, hz: u32, runtime_ns: u64) -> BillingFinding {
        let ratio_of =
            |ticks: u64| (runtime_ns > 0).then(|| ticks as f64 * period_ns(hz) as f64 / runtime_ns as f64);
        let hits = task.hits.by_phase(at);
        let least = hits.iter().copied().min().unwrap_or(0);
        let most = hits.iter().copied().max().unwrap_or(0);
        let missed = task.whole - task.hits.hit_at_own(at);
        let is_phased = !task.unphased;
        // The kernel handles ticks some microseconds after they are due. If the trace has ticks, they show
        // which task each of them hit.
        let recorded = (self.header.hz == Some(hz) && self.has_ticks).then_some(task.ticks);
        let own = recorded.or(is_phased.then_some(hits[0]));
        BillingFinding {
            hz,
            ratio: own.and_then(ratio_of),
            missed_percent: (is_phased && task.whole > 0).then(|| 100.0 * missed as f64 / task.whole as f64),
            ratio_min: ratio_of(own.map_or(least, |own| own.min(least))),
            ratio_max: ratio_of(own.map_or(most, |own| own.max(most))),
        }
    }
}
