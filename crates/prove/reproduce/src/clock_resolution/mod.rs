//! Repeats section 7 of the paper on clock resolution (Etsion, Tsafrir, Feitelson 2003, Effects of Clock
//! Resolution on the Scheduling of Interactive and Soft Real-Time Processes). Table 6 and figure 7: how late
//! alarm signals reach processes on a kernel of 100 Hz and on a kernel of 20,000 Hz. Figure 8: the throughput
//! of both kernels.

mod boot;
mod cells;
mod figures;
mod json;
mod page;
mod published;
mod rows;
mod sorts;
mod text;

use serde::{Deserialize, Serialize};

pub use cells::{Laboratory, Request};
pub use json::report as json;
pub use page::page;
pub use published::{CASES, Case, LEFT_OUT, MACHINE, Tail};
pub use rows::{Row, Share, Verdict, rows, shares};
pub use sorts::{
    GENERATIONS, Generation, SORTS, Sorting, Throughput, Upgrade, loss_percent, throughputs, upgrade,
};
pub use text::report as text;

/// A kernel and its quantum.
#[derive(Debug, PartialEq, Eq)]
pub struct System {
    /// The system's name in this study.
    pub key: &'static str,
    /// The lab's name for the system's kernel.
    pub kernel: &'static str,
    /// The length of a tick, ns.
    pub tick_ns: u64,
    /// The quantum of the round-robin class, ms, as text for the scenario.
    pub quantum_ms: &'static str,
    /// The system in words.
    pub about: &'static str,
}

/// The two systems of the paper, in the order of [`Case::table`].
pub const SYSTEMS: [System; 2] = [
    System {
        key: "base",
        kernel: "100hz-periodic",
        tick_ns: 10_000_000,
        quantum_ms: "60",
        about: "100 Hz, quanta of 60 ms",
    },
    System {
        key: "fast",
        kernel: "20000hz-periodic",
        tick_ns: 50_000,
        quantum_ms: "0.1",
        about: "20,000 Hz, quanta of 100 us",
    },
];

/// A cell: one boot of a system with a case of alarms.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The system's key.
    pub system: String,
    /// The case's key.
    pub case: String,
    /// The seed of the boot.
    pub seed: u64,
    /// How late each signal was, ns, the earliest first. There is at least one.
    pub late_ns: Vec<u64>,
}

/// The measurement of one boot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BootMeasurement {
    /// Alarms, for table 6 and figure 7.
    Alarms(Cell),
    /// Sorting, for figure 8.
    Sorts(Sorting),
}

/// All measurements of the study.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Study {
    /// The cells with alarms, in any order.
    pub cells: Vec<Cell>,
    /// The cells that sorted, in any order.
    pub sorts: Vec<Sorting>,
}

impl FromIterator<BootMeasurement> for Study {
    fn from_iter<I: IntoIterator<Item = BootMeasurement>>(measured: I) -> Self {
        let mut study = Study::default();
        for one in measured {
            match one {
                BootMeasurement::Alarms(cell) => study.cells.push(cell),
                BootMeasurement::Sorts(sorting) => study.sorts.push(sorting),
            }
        }
        study
    }
}

impl Cell {
    /// The delay that this part of the signals does not exceed, ns. A part of 1 gives the longest delay.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let rank = (part * self.late_ns.len() as f64).ceil() as usize;
        self.late_ns.get(rank.clamp(1, self.late_ns.len().max(1)) - 1).copied().unwrap_or_default()
    }

    /// The part of the signals that were delivered within this time, from 0 to 1.
    pub fn part_within(&self, ns: u64) -> f64 {
        self.late_ns.partition_point(|&late_ns| late_ns <= ns) as f64 / self.late_ns.len().max(1) as f64
    }
}

impl Study {
    /// The cells of a system with a case, one for each seed.
    pub fn of<'a>(&'a self, system: &'a System, case: &Case) -> impl Iterator<Item = &'a Cell> {
        let case = case.key();
        self.cells.iter().filter(move |cell| cell.system == system.key && cell.case == case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn cell(system: &str, case: &str, seed: u64, late_us: &[u64]) -> Cell {
        let late_ns = late_us.iter().map(|us| us * 1000).collect();
        Cell { system: system.to_owned(), case: case.to_owned(), seed, late_ns }
    }

    /// A hundred signals. For each pair of `tail`, the signals up to that number have that latency, us.
    pub(super) fn signals(tail: &[(usize, u64)]) -> Vec<u64> {
        (1..=100).map(|nth| tail.iter().find(|(to, _)| nth <= *to).map_or(0, |(_, us)| *us)).collect()
    }

    pub(super) fn study() -> Study {
        let base = [(16, 8_000), (90, 378_000), (95, 402_000), (99, 421_000), (100, 428_000)];
        let fast = [(16, 40), (90, 662), (95, 709), (99, 735), (100, 746)];
        let loops = [(50, 200_000), (100, 480_000)];
        Study {
            cells: vec![
                cell("base", "cont-8", 1, &signals(&base)),
                cell("fast", "cont-8", 1, &signals(&fast)),
                cell("fast", "cont-8", 2, &signals(&[(90, 664), (95, 711), (99, 737), (100, 750)])),
                cell("fast", "blk-8", 1, &signals(&[(90, 53), (95, 56), (99, 58), (100, 69)])),
                cell("base", "4-1-8cpu", 1, &signals(&loops)),
            ],
            sorts: [("older", "base", 8), ("older", "fast", 6), ("newer", "base", 16), ("newer", "fast", 14)]
                .map(|(generation, system, millions)| Sorting {
                    system: system.to_owned(),
                    generation: generation.to_owned(),
                    seed: 1,
                    numbers: millions * 1_000_000,
                    seconds: 2,
                })
                .into(),
        }
    }

    #[test]
    fn quantiles_are_signals_and_parts_count_those_in_time() {
        let study = study();
        let cell = &study.cells[0];
        assert_eq!(
            [0.9, 0.95, 0.99, 1.0].map(|part| cell.quantile_ns(part) / 1000),
            [378_000, 402_000, 421_000, 428_000]
        );
        assert_eq!(cell.part_within(8_000_000), 0.16);
        assert_eq!((cell.part_within(0), cell.part_within(u64::MAX)), (0.0, 1.0));
    }

    #[test]
    fn each_system_s_kernel_is_one_that_the_lab_builds() {
        for system in &SYSTEMS {
            let variant: spry_lab::Variant = system.kernel.parse().expect("the lab builds it");
            assert_eq!(u64::from(variant.hz) * system.tick_ns, 1_000_000_000);
        }
    }
}
