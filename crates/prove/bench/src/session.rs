//! The time of one benchmark, and the rule for the samples that count.

use spry_sys::clock::{monotonic_ns, thread_cpu_ns};
use spry_sys::schedule;

use crate::error::{Error, Result};
use crate::machine::BenchMachine;
use crate::report::Figure;
use crate::stats::Stats;

/// How many undisturbed samples a value needs.
pub(crate) const NEEDED: usize = 10;

/// The share of a sample's time that must be the thread's own CPU time. Some kernels do not count interrupts
/// as the thread's time, although the benchmarks measure interrupts. No kernel counts a hypervisor's time;
/// that time is long where it matters.
const OWN: f64 = 0.5;

/// The caller's part during a run: it shows the progress and may end the run. The measuring thread calls it
/// between samples.
pub trait RunWatch: Sync {
    /// Receives the progress of the whole run, 0 to 1, and the name of the current measurement.
    fn progress(&self, _part: f64, _what: &'static str) {}

    /// Whether the run is to end early.
    fn is_over(&self) -> bool {
        false
    }
}

/// A watch that shows nothing and ends no run early.
#[derive(Clone, Copy, Debug)]
pub struct NoWatch;

impl RunWatch for NoWatch {}

/// The resources of a benchmark: its time and its part of the progress.
pub(crate) struct Session<'a> {
    pub(crate) machine: &'a BenchMachine,
    pub(crate) cpu: u32,
    /// How long the benchmark may take, ns.
    pub(crate) budget_ns: u64,
    /// The part of the whole run before the benchmark, and the benchmark's own part; 0 to 1.
    pub(crate) before: f64,
    pub(crate) part: f64,
    pub(crate) what: &'static str,
    pub(crate) watch: &'a dyn RunWatch,
}

impl<'a> Session<'a> {
    /// A part of this session: its beginning and its size, as shares of the session from 0 to 1.
    pub(crate) fn share(&self, from: f64, share: f64) -> Session<'a> {
        let budget_ns = (self.budget_ns as f64 * share) as u64;
        Session { budget_ns, before: self.before + self.part * from, part: self.part * share, ..*self }
    }

    /// Does some work. `None` if another task had the CPU meanwhile, or the hypervisor took most of the time.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let (switches, used_ns, began_ns) = (schedule::switches(), thread_cpu_ns(), monotonic_ns());
        let done = work();
        let took_ns = monotonic_ns() - began_ns;
        let used_ns = thread_cpu_ns() - used_ns;
        let is_own = used_ns as f64 >= OWN * took_ns as f64;
        (schedule::switches() == switches && is_own).then_some(done)
    }

    /// Calls `step` until the time is up, but at least once.
    pub(crate) fn repeat(&self, mut step: impl FnMut() -> Result<()>) -> Result<()> {
        let began_ns = monotonic_ns();
        loop {
            step()?;
            let done = (monotonic_ns() - began_ns) as f64 / self.budget_ns.max(1) as f64;
            self.watch.progress(self.before + self.part * done.min(1.0), self.what);
            if done >= 1.0 || self.watch.is_over() {
                return Ok(());
            }
        }
    }

    /// Takes samples until the time is up. The first sample is for warming up and does not count.
    pub(crate) fn collect(&self, mut sample: impl FnMut() -> Option<f64>) -> Result<Figure> {
        let mut samples = Vec::new();
        let mut set_aside = 0;
        _ = sample();
        self.repeat(|| {
            match sample() {
                Some(sample) => samples.push(sample),
                None => set_aside += 1,
            }
            Ok(())
        })?;
        self.figure(&samples, set_aside)
    }

    /// The value of the samples, if there are enough of them.
    pub(crate) fn figure(&self, samples: &[f64], set_aside: u64) -> Result<Figure> {
        match Stats::of(samples) {
            Some(stats) if stats.count >= NEEDED => Ok(Figure { stats, set_aside }),
            _ if self.watch.is_over() => Err(Error::Interrupted),
            _ => Err(Error::Disturbed {
                cpu: self.cpu,
                set_aside,
                all: set_aside + samples.len() as u64,
                needed: NEEDED,
            }),
        }
    }
}
