//! One benchmark's time, and which of its samples count.

use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::report::Figure;
use crate::stats::Stats;
use crate::sys;

/// Undisturbed samples that a figure needs.
pub(crate) const NEEDED: usize = 10;

/// What part of a sample's time must be the thread's own. Some kernels count interrupts apart, and those are measured; what they
/// all count apart is what a hypervisor took, which is long where it matters.
const OWN: f64 = 0.5;

/// Who looks after a run. It is called by the thread that measures, between samples.
pub trait Watch: Sync {
    /// How far the whole run is, 0 to 1, and what is measured now.
    fn progress(&self, _part: f64, _what: &'static str) {}

    /// Whether the run is to end early.
    fn is_over(&self) -> bool {
        false
    }
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// What a benchmark may use.
pub(crate) struct Session<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) cpu: u32,
    /// What it may take, ns.
    pub(crate) budget_ns: u64,
    /// What of the whole run is before it, and what it is itself; 0 to 1.
    pub(crate) before: f64,
    pub(crate) part: f64,
    pub(crate) what: &'static str,
    pub(crate) watch: &'a dyn Watch,
}

impl<'a> Session<'a> {
    /// A part of it: from where on, and how much; 0 to 1.
    pub(crate) fn share(&self, from: f64, share: f64) -> Session<'a> {
        let budget_ns = (self.budget_ns as f64 * share) as u64;
        Session { budget_ns, before: self.before + self.part * from, part: self.part * share, ..*self }
    }

    /// Does something; `None` if somebody else had the CPU meanwhile, or the hypervisor took most of the time.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let (switches, used_ns, began_ns) = (sys::switches(), sys::thread_cpu_ns(), sys::now_ns());
        let done = work();
        let took_ns = sys::now_ns() - began_ns;
        let used_ns = sys::thread_cpu_ns() - used_ns;
        let is_own = used_ns as f64 >= OWN * took_ns as f64;
        (sys::switches() == switches && is_own).then_some(done)
    }

    /// Calls `step` until the time is up; it is called once at least.
    pub(crate) fn repeat(&self, mut step: impl FnMut() -> Result<()>) -> Result<()> {
        let began_ns = sys::now_ns();
        loop {
            step()?;
            let done = (sys::now_ns() - began_ns) as f64 / self.budget_ns.max(1) as f64;
            self.watch.progress(self.before + self.part * done.min(1.0), self.what);
            if done >= 1.0 || self.watch.is_over() {
                return Ok(());
            }
        }
    }

    /// Takes samples until the time is up. The first is for warming up.
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

    /// What is said of samples, if there are enough.
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
