//! A run: which benchmarks, where, for how long.

use std::thread;
use std::time::Duration;

use crate::cache;
use crate::clock;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::machine::{self, Machine, Noise};
use crate::report::{Lack, Report};
use crate::session::{Session, Watch};
use crate::sort;
use crate::switch;
use crate::sys;
use crate::trap;

/// How long all benchmarks take together if nobody says otherwise.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(20);
/// Levels of the cache whose bandwidth is measured.
const LEVELS: [u32; 2] = [1, 2];

/// A benchmark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Benchmark {
    /// A context switch.
    Switch,
    /// A trap.
    Trap,
    /// Bandwidth of the first two levels of the cache.
    Cache,
    /// The clock's own interrupt.
    Interrupt,
    /// Sorting at different rates of interrupts.
    Sort,
}

impl Benchmark {
    /// All of them, in the order in which they run.
    pub const ALL: [Benchmark; 5] =
        [Benchmark::Switch, Benchmark::Trap, Benchmark::Cache, Benchmark::Interrupt, Benchmark::Sort];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Switch => "switch",
            Benchmark::Trap => "trap",
            Benchmark::Cache => "cache",
            Benchmark::Interrupt => "interrupt",
            Benchmark::Sort => "sort",
        }
    }

    /// Its part of the time, in no unit.
    fn weight(self) -> f64 {
        match self {
            Benchmark::Switch | Benchmark::Cache => 2.0,
            Benchmark::Trap => 1.0,
            Benchmark::Interrupt => 3.0,
            Benchmark::Sort => 12.0,
        }
    }
}

/// What is to be measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// On which CPU; otherwise the last that this process may use, as first ones have more interrupts.
    pub cpu: Option<u32>,
    /// Which benchmarks; empty for all.
    pub only: Vec<Benchmark>,
    /// How long they take together, but for a fraction of a second.
    pub duration: Duration,
    /// SCHED_FIFO priority of 1 to 99, so that others stay away; 0 is the ordinary class, as the article's processes had.
    pub priority: u8,
}

impl Default for Config {
    fn default() -> Config {
        Config { cpu: None, only: Vec::new(), duration: DURATION_DEFAULT, priority: 0 }
    }
}

impl Config {
    fn benchmarks(&self) -> Vec<Benchmark> {
        let asked = |benchmark: &Benchmark| self.only.is_empty() || self.only.contains(benchmark);
        Benchmark::ALL.into_iter().filter(asked).collect()
    }
}

/// Measures in a thread of its own, so that the caller keeps its CPUs and its class.
///
/// # Errors
/// Where the thread cannot have the CPU or the priority. A benchmark that comes to nothing is among the report's lacks.
///
/// # Panics
/// Where the watch does.
pub fn run(config: &Config, watch: &dyn Watch) -> Result<Report> {
    thread::scope(|scope| {
        let measuring = scope.spawn(|| measure(config, watch));
        match measuring.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn measure(config: &Config, watch: &dyn Watch) -> Result<Report> {
    let allowed = sys::allowed_cpus();
    let cpu = config.cpu.or(allowed.last().copied()).unwrap_or(0);
    sys::set_cpu(cpu).map_err(|error| Error::Cpu { cpu, allowed, error })?;
    if config.priority > 0 {
        let refused = |error| Error::NotRealTime { priority: config.priority, error };
        sys::set_fifo(config.priority).map_err(refused)?;
    }
    let began_ns = sys::now_ns();
    let accounted = machine::accounted(cpu);
    let mut report = Report {
        machine: Machine::ask(cpu, clock::cycles_per_ns()),
        cpu,
        priority: config.priority,
        switch: None,
        trap: None,
        cache: Vec::new(),
        interrupt: None,
        sort: None,
        lacks: Vec::new(),
        noise: Noise::default(),
        elapsed_ns: 0,
        interrupted: false,
    };
    let benchmarks = config.benchmarks();
    let whole: f64 = benchmarks.iter().map(|benchmark| benchmark.weight()).sum();
    let machine = report.machine.clone();
    let mut before = 0.0;
    for benchmark in benchmarks {
        let part = benchmark.weight() / whole;
        let budget_ns = (config.duration.as_nanos() as f64 * part) as u64;
        let session =
            Session { machine: &machine, cpu, budget_ns, before, part, what: benchmark.name(), watch };
        if let Err(error) = one(benchmark, &session, &mut report) {
            report.lacks.push(Lack { benchmark, reason: error.to_string() });
        }
        before += part;
    }
    report.noise = Noise::between(accounted, machine::accounted(cpu));
    report.elapsed_ns = sys::now_ns() - began_ns;
    report.interrupted = watch.is_over();
    Ok(report)
}

fn one(benchmark: Benchmark, session: &Session<'_>, report: &mut Report) -> Result<()> {
    if session.watch.is_over() {
        return Err(Error::Interrupted);
    }
    match benchmark {
        Benchmark::Switch => report.switch = Some(switch::measure(session)?),
        Benchmark::Trap => report.trap = Some(trap::measure(session)?),
        Benchmark::Cache => {
            let share = 1.0 / LEVELS.len() as f64;
            for (nth, level) in LEVELS.into_iter().enumerate() {
                let session = session.share(nth as f64 * share, share);
                report.cache.push(cache::measure(&session, level)?);
            }
        }
        Benchmark::Interrupt => report.interrupt = Some(interrupt::tick(session)?),
        Benchmark::Sort => report.sort = Some(sort::measure(session)?),
    }
    Ok(())
}
