//! A run: its benchmarks, its CPU and its duration.

use std::thread;
use std::time::Duration;

use spry_sys::clock::monotonic_ns;

use crate::cache;
use crate::clock;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::machine::{self, BenchMachine, Noise};
use crate::report::{Lack, Report};
use crate::session::{RunWatch, Session};
use crate::sort;
use crate::switch;
use crate::trap;

/// How long all benchmarks together take by default.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(20);
/// The levels of the cache that are measured.
const LEVELS: [u32; 2] = [1, 2];

/// The benchmarks of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Benchmark {
    /// The cost of a context switch.
    Switch,
    /// The cost of a trap.
    Trap,
    /// The bandwidth of the first two levels of the cache.
    Cache,
    /// The cost of the clock's own interrupt.
    Interrupt,
    /// The time of sorting at different rates of interrupts.
    Sort,
}

impl Benchmark {
    /// All benchmarks, in the order in which they run.
    pub const ALL: [Benchmark; 5] =
        [Benchmark::Switch, Benchmark::Trap, Benchmark::Cache, Benchmark::Interrupt, Benchmark::Sort];

    /// The benchmark's name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Benchmark::Switch => "switch",
            Benchmark::Trap => "trap",
            Benchmark::Cache => "cache",
            Benchmark::Interrupt => "interrupt",
            Benchmark::Sort => "sort",
        }
    }

    /// The weight by which the benchmark gets its part of the time.
    fn weight(self) -> f64 {
        match self {
            Benchmark::Switch | Benchmark::Cache => 2.0,
            Benchmark::Trap => 1.0,
            Benchmark::Interrupt => 3.0,
            Benchmark::Sort => 12.0,
        }
    }
}

/// The parameters of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// The CPU to measure; `None`: the last CPU that this process may use, because the first CPUs get
    /// more interrupts.
    pub cpu: Option<u32>,
    /// The benchmarks to run; empty: all.
    pub only: Vec<Benchmark>,
    /// How long the benchmarks take together. The run may take a fraction of a second more.
    pub duration: Duration,
    /// The SCHED_FIFO priority, 1 to 99, which keeps other programs away. 0 means the ordinary class, in
    /// which the article's processes were.
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

/// Runs the benchmarks in a thread of its own, so that the caller keeps its CPUs and its class.
///
/// # Errors
/// If the thread cannot have the CPU or the priority. A benchmark that gives no result is among the report's
/// lacks, and is not an error.
///
/// # Panics
/// If `watch` panics.
pub fn run(config: &Config, watch: &dyn RunWatch) -> Result<Report> {
    thread::scope(|scope| {
        let measuring = scope.spawn(|| measure(config, watch));
        match measuring.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn measure(config: &Config, watch: &dyn RunWatch) -> Result<Report> {
    let allowed = spry_sys::cpus::allowed_cpus();
    let cpu = config.cpu.or(allowed.last().copied()).unwrap_or(0);
    spry_sys::cpus::set_cpu(cpu).map_err(|error| Error::Cpu { cpu, allowed, error })?;
    if config.priority > 0 {
        let refused = |error| Error::NotRealTime { priority: config.priority, error };
        spry_sys::schedule::set_fifo(config.priority).map_err(refused)?;
    }
    let began_ns = monotonic_ns();
    let accounted = machine::accounted(cpu);
    let mut report = Report {
        machine: BenchMachine::ask(cpu, clock::cycles_per_ns()),
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
    report.elapsed_ns = monotonic_ns() - began_ns;
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
