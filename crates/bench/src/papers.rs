//! What the same things cost on the article's machines.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

const TEXT: &str = include_str!("papers.toml");

/// Cycles and their standard deviation, with the time that they are.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Mean, cycles.
    pub cycles: f64,
    /// Standard deviation, cycles.
    pub sd: f64,
    /// Mean, us.
    pub us: f64,
}

/// A cache's bandwidth.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Mean, MB/s.
    pub mb_s: f64,
    /// Standard deviation, MB/s.
    pub sd: f64,
}

/// A row of tables 1 and 2.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Processor {
    /// Its name, with its clock rate in MHz.
    pub name: String,
    /// The clock's interrupt, which reads the 8253 timer chip.
    pub interrupt: Cost,
    /// The same without that.
    pub lean_interrupt: Cost,
    /// A context switch.
    pub switch: Cost,
    /// memcpy in a cache.
    pub cache: Bandwidth,
    /// A trap.
    pub trap: Cost,
}

/// The example of section 3: sorting on a Pentium III of 664 MHz.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sorting {
    /// An iteration at 100 Hz, ms.
    pub ms_at_100_hz: f64,
    /// An iteration at 10,000 Hz, ms.
    pub ms_at_10000_hz: f64,
    /// Interrupts that were added to it.
    pub interrupts: f64,
    /// The time they added, us.
    pub added_us: f64,
    /// Their own time, us.
    pub direct_us: f64,
    /// The rest of it, per cent.
    pub indirect_percent: f64,
}

/// All of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Papers {
    /// Tables 1 and 2.
    #[serde(rename = "processor")]
    pub processors: Vec<Processor>,
    /// Section 3.
    pub sort: Sorting,
}

/// The article's figures.
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
                // Printed times have two decimals.
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
