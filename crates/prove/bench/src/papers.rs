//! The costs of the same operations on the article's machines.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

const TEXT: &str = include_str!("papers.toml");

/// The cost of an operation: cycles with their standard deviation, and the time of the mean.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// The mean, cycles.
    pub cycles: f64,
    /// The standard deviation, cycles.
    pub sd: f64,
    /// The time of the mean cost, us.
    pub us: f64,
}

/// The bandwidth of a cache.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// The mean, MB/s.
    pub mb_s: f64,
    /// The standard deviation, MB/s.
    pub sd: f64,
}

/// A row of tables 1 and 2: one processor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Processor {
    /// The processor's name, with its clock rate in MHz.
    pub name: String,
    /// The cost of the clock's interrupt, which reads the 8253 timer chip.
    pub interrupt: Cost,
    /// The cost of the clock's interrupt if it does not read that chip.
    pub lean_interrupt: Cost,
    /// The cost of a context switch.
    pub switch: Cost,
    /// The bandwidth of memcpy within a cache.
    pub cache: Bandwidth,
    /// The cost of a trap.
    pub trap: Cost,
}

/// The example of section 3: sorting on a Pentium III at 664 MHz.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sorting {
    /// The time of an iteration at 100 interrupts a second, ms.
    pub ms_at_100_hz: f64,
    /// The time of an iteration at 10,000 interrupts a second, ms.
    pub ms_at_10000_hz: f64,
    /// How many interrupts the higher rate added to an iteration.
    pub interrupts: f64,
    /// The time that these interrupts added, us.
    pub added_us: f64,
    /// The part of the added time that is the interrupts' own, us.
    pub direct_us: f64,
    /// The rest of the added time, percent.
    pub indirect_percent: f64,
}

/// All values of the article.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Papers {
    /// The rows of tables 1 and 2.
    #[serde(rename = "processor")]
    pub processors: Vec<Processor>,
    /// The example of section 3.
    pub sort: Sorting,
}

/// The article's values.
pub fn papers() -> &'static Papers {
    static PAPERS: OnceLock<Papers> = OnceLock::new();
    PAPERS.get_or_init(|| toml::from_str(TEXT).expect("the table is right"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_times_of_each_row_agree_with_the_processors_rate() {
        assert_eq!(papers().processors.len(), 7);
        for processor in &papers().processors {
            let (_, mhz) = processor.name.rsplit_once(' ').unwrap();
            let mhz: f64 = mhz.parse().unwrap();
            let costs = [processor.interrupt, processor.lean_interrupt, processor.switch, processor.trap];
            for cost in costs {
                // The times that the article prints have two decimals.
                assert!(
                    (cost.cycles / mhz - cost.us).abs() < 0.03 * cost.us + 0.006,
                    "{}: {cost:?}",
                    processor.name
                );
            }
        }
    }

    #[test]
    fn the_parts_of_sorting_add_up() {
        let sort = papers().sort;
        assert!((sort.ms_at_10000_hz - sort.ms_at_100_hz - sort.added_us / 1e3).abs() < 1e-9);
        assert_eq!((100.0 * (1.0 - sort.direct_us / sort.added_us)).round(), sort.indirect_percent);
    }
}
