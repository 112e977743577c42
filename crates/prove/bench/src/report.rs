//! The report of a run.

use crate::machine::{BenchMachine, Noise};
use crate::run::Benchmark;
use crate::stats::Stats;

/// A measured value and its samples' statistics.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// The statistics of the samples, in ns. For bandwidths they are in 10^6 bytes a second.
    pub stats: Stats,
    /// How many samples do not count, because other programs had the CPU meanwhile.
    pub set_aside: u64,
}

/// The bandwidth of one level of the cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Cache {
    /// The level of the cache: 1 or 2.
    pub level: u32,
    /// The size of the cache.
    pub cache_bytes: usize,
    /// How much is copied at once: a quarter of the cache, so that source and destination fill half of it.
    pub block_bytes: usize,
    /// The bandwidth: 10^6 bytes copied a second.
    pub figure: Figure,
}

/// The cost of the clock's own interrupt (the tick) for a running program.
#[derive(Clone, PartialEq, Debug)]
pub struct Interrupt {
    /// How often the tick comes, Hz.
    pub tick_hz: f64,
    /// How long the tick stops the program, ns.
    pub figure: Figure,
}

/// Sorting at one rate of interrupts.
#[derive(Clone, PartialEq, Debug)]
pub struct Rate {
    /// How many interrupts a second were added to the interrupts of the machine itself.
    pub rate_hz: u32,
    /// The time of an iteration, ns.
    pub figure: Figure,
    /// How much longer the same iteration took than at rate 0, ns. `None` at rate 0, and if too few
    /// iterations count at both rates.
    pub added: Option<Stats>,
}

/// The cost of interrupts beyond their own time (section 3 of the article).
#[derive(Clone, PartialEq, Debug)]
pub struct Sort {
    /// The size of the array: half of the second-level cache.
    pub array_bytes: usize,
    /// How long one interrupt stops a spinning loop, ns.
    pub expiry: Figure,
    /// The results for each rate. The first rate is 0.
    pub rates: Vec<Rate>,
    /// The rates for which this kernel allows no timer.
    pub left_out_hz: Vec<u32>,
}

/// The time that a rate of interrupts adds to an iteration, and the part of it that is the interrupts' own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// How many interrupts were added to the machine's own interrupts in an iteration.
    pub interrupts: f64,
    /// The time that the added interrupts add in all, ns.
    pub added_ns: f64,
    /// The 95 % interval of the added time reaches this far to either side, ns; `None` if
    /// there is one sample.
    pub margin_ns: Option<f64>,
    /// The part of the added time that is the interrupts' own, ns.
    pub direct_ns: f64,
    /// The 95 % interval of the interrupts' own time reaches this far to either side, ns; `None` if
    /// there is one sample.
    pub direct_margin_ns: Option<f64>,
}

/// A 95 % interval reaches this many standard errors to either side.
const SIDES: f64 = 1.96;

impl Share {
    /// The part of the added time that is not the interrupts' own, percent, and how far its 95 % interval
    /// reaches to either side. It is below 0 if the interrupts' own time is longer than the added time.
    /// `None` if the added time is not more than noise, or if the noise is not known.
    pub fn indirect_percent(&self) -> Option<(f64, f64)> {
        let percent = |ns: f64| 100.0 * ns / self.added_ns;
        let (margin_ns, direct_margin_ns) = (self.margin_ns?, self.direct_margin_ns?);
        let indirect = (percent(self.added_ns - self.direct_ns), percent(margin_ns.hypot(direct_margin_ns)));
        (self.added_ns > margin_ns).then_some(indirect)
    }
}

impl Sort {
    /// Divides the time that a rate adds into the interrupts' own time and the rest; `None` if the added time
    /// was not measured.
    pub fn share(&self, rate: &Rate) -> Option<Share> {
        let added = rate.added?;
        let interrupts = f64::from(rate.rate_hz) * rate.figure.stats.mean / 1e9;
        Some(Share {
            interrupts,
            added_ns: added.mean,
            margin_ns: added.standard_error().map(|error| SIDES * error),
            direct_ns: interrupts * self.expiry.stats.mean,
            direct_margin_ns: self.expiry.stats.standard_error().map(|error| interrupts * SIDES * error),
        })
    }
}

/// A benchmark that gave no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lack {
    /// The benchmark that failed.
    pub benchmark: Benchmark,
    /// The reason why it gave no result, and the user's remedy.
    pub reason: String,
}

/// All measurements of a run. A field that is `None` or empty was not requested, or `lacks` has the reason
/// why it is missing.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The machine that was measured.
    pub machine: BenchMachine,
    /// The CPU that was measured.
    pub cpu: u32,
    /// The SCHED_FIFO priority of the measurement; 0 means the ordinary class.
    pub priority: u8,
    /// The cost of a context switch, ns.
    pub switch: Option<Figure>,
    /// The cost of a trap, ns.
    pub trap: Option<Figure>,
    /// The bandwidths of copying memory within the caches.
    pub cache: Vec<Cache>,
    /// The cost of the tick.
    pub interrupt: Option<Interrupt>,
    /// The time of sorting at different rates of interrupts.
    pub sort: Option<Sort>,
    /// The benchmarks that gave no result.
    pub lacks: Vec<Lack>,
    /// The CPU time that the hypervisor took during the run.
    pub noise: Noise,
    /// How long the run took, ns.
    pub elapsed_ns: u64,
    /// Whether the user ended the run early.
    pub interrupted: bool,
}

impl Report {
    /// All measured values with their names.
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let mut figures = Vec::new();
        figures.extend(one("context switch", self.switch.as_ref()));
        figures.extend(one("trap", self.trap.as_ref()));
        figures.extend(self.cache.iter().map(|cache| (format!("L{} copy", cache.level), &cache.figure)));
        figures.extend(one("clock interrupt", self.interrupt.as_ref().map(|interrupt| &interrupt.figure)));
        if let Some(sort) = &self.sort {
            figures.extend(one("timer interrupt", Some(&sort.expiry)));
            figures
                .extend(sort.rates.iter().map(|rate| (format!("sort, +{} Hz", rate.rate_hz), &rate.figure)));
        }
        figures
    }

    /// Warnings that a reader needs before trusting the values, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.machine.frequency_warning(self.cpu).into_iter().collect::<Vec<_>>();
        let all: u64 =
            self.figures().iter().map(|(_, figure)| figure.stats.count as u64 + figure.set_aside).sum();
        let aside: u64 = self.figures().iter().map(|(_, figure)| figure.set_aside).sum();
        if aside * ASIDE_TOLD > all {
            warnings.push(format!(
                "the machine is busy: others had CPU {} in {:.0} % of all samples, which were set aside",
                self.cpu,
                100.0 * aside as f64 / all as f64
            ));
        }
        if self.noise.stolen_percent.is_some_and(|percent| percent >= STOLEN_TOLD_PERCENT) {
            warnings.push(format!(
                "the hypervisor took {:.1} % of CPU {}'s time, and what it takes within a sample counts",
                self.noise.stolen_percent.unwrap_or_default(),
                self.cpu
            ));
        }
        let wide: Vec<_> = self
            .figures()
            .into_iter()
            .filter(|(_, figure)| figure.stats.sd.is_some_and(|sd| sd > figure.stats.mean / 2.0))
            .collect();
        if !wide.is_empty() {
            let names: Vec<_> = wide.into_iter().map(|(name, _)| name).collect();
            warnings.push(format!(
                "the standard deviation is more than half of the mean (look at the median): {}",
                names.join(", ")
            ));
        }
        warnings
    }
}

fn one<'a>(name: &str, figure: Option<&'a Figure>) -> Option<(String, &'a Figure)> {
    figure.map(|figure| (name.to_owned(), figure))
}

/// If more than one sample in this many is set aside, the report has a warning.
const ASIDE_TOLD: u64 = 10;
/// From this share on, a warning reports the stolen time, percent.
const STOLEN_TOLD_PERCENT: f64 = 1.0;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn figure(mean: f64, sd: f64) -> Figure {
        let stats = Stats { count: 100, mean, sd: Some(sd), min: mean / 2.0, median: mean, max: mean * 2.0 };
        Figure { stats, set_aside: 3 }
    }

    /// A report with the values of the article's own machine, of the example of section 3 and of
    /// tables 1 and 2.
    pub(crate) fn report() -> Report {
        let rate = |rate_hz, mean: f64, added: Option<f64>| Rate {
            rate_hz,
            figure: figure(mean, 1e5),
            added: added.map(|added| figure(added, 2e5).stats),
        };
        Report {
            machine: BenchMachine { cycles_per_ns: Some(0.664), ..BenchMachine::default() },
            cpu: 0,
            priority: 0,
            switch: Some(figure(1_980.0, 640.0)),
            trap: Some(figure(520.0, 245.0)),
            cache: vec![Cache {
                level: 1,
                cache_bytes: 16_384,
                block_bytes: 4_096,
                figure: figure(2_512.0, 32.0),
            }],
            interrupt: Some(Interrupt { tick_hz: 100.0, figure: figure(490.0, 730.0) }),
            sort: Some(Sort {
                array_bytes: 131_072,
                expiry: figure(490.0, 730.0),
                rates: vec![
                    rate(0, 12.675e6, None),
                    rate(100, 12.68e6, Some(5e3)),
                    rate(9_900, 13.397e6, Some(722e3)),
                ],
                left_out_hz: Vec::new(),
            }),
            lacks: Vec::new(),
            noise: Noise::default(),
            elapsed_ns: 20_000_000_000,
            interrupted: false,
        }
    }

    #[test]
    fn the_articles_example_is_91_per_cent_indirect() {
        let report = report();
        let sort = report.sort.as_ref().unwrap();
        let share = sort.share(&sort.rates[2]).unwrap();
        assert_eq!((share.interrupts.round(), (share.direct_ns / 1e3).round()), (133.0, 65.0));
        let (percent, margin) = share.indirect_percent().unwrap();
        // The 95 % intervals reach 39.2 us to either side for the added time, and 19 us for the direct time.
        // The added time is 722 us.
        assert_eq!((percent.round(), margin.round()), (91.0, 6.0));
        // A time of 5 us with an interval of 20 us to either side is noise.
        assert_eq!(sort.share(&sort.rates[1]).unwrap().indirect_percent(), None);
        assert_eq!(sort.share(&sort.rates[0]), None);
    }

    #[test]
    fn one_sample_makes_no_share_certain() {
        let mut report = report();
        let sort = report.sort.as_mut().unwrap();
        let added = sort.rates[2].added.as_mut().unwrap();
        (added.count, added.sd) = (1, None);
        let share = sort.share(&sort.rates[2]).unwrap();
        assert_eq!((share.added_ns, share.margin_ns, share.indirect_percent()), (722e3, None, None));
        assert!(crate::text::report(&report).contains("722.0 ± -"));
        assert_eq!(
            crate::json::report(&report)["sort"]["rates"][2]["added_margin_ns"],
            serde_json::Value::Null
        );
    }

    #[test]
    fn a_busy_machine_stolen_time_and_wide_spreads_are_told() {
        let mut report = report();
        let quiet = report.warnings();
        assert!(quiet.len() == 1 && quiet[0].ends_with("clock interrupt, timer interrupt"), "{quiet:?}");
        report.trap.as_mut().unwrap().set_aside = 1_000;
        report.noise.stolen_percent = Some(2.5);
        let warnings = report.warnings().join("; ");
        assert!(warnings.contains("the machine is busy") && warnings.contains("took 2.5 %"), "{warnings}");
    }
}
