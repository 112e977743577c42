//! Figure 8: how many numbers competing processes sort per second under both systems, on an older and on a
//! newer processor.

use serde::{Deserialize, Serialize};

use super::{SYSTEMS, Study, System, Verdict};
use crate::study::Spread;

/// The number of processes that sort.
pub(super) const PROCESSES: u32 = 8;
/// The key of figure 8's cells, for files and commands.
pub const SORTS: &str = "sort-8";

/// A generation of processors; in the lab it is a speed.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// The generation's name in this study.
    pub key: &'static str,
    /// An instruction takes 2 to the power of this number, in nanoseconds.
    pub shift: u8,
    /// The lab's processor in words.
    pub about: &'static str,
    /// The paper's processor.
    pub then: &'static str,
}

/// Both generations; the older generation is the first.
pub const GENERATIONS: [Generation; 2] = [
    Generation {
        key: "older",
        shift: 1,
        about: "two nanoseconds an instruction",
        then: "Pentium III 664 MHz",
    },
    Generation {
        key: "newer",
        shift: 0,
        about: "a nanosecond an instruction",
        then: "Pentium III 1.133 GHz",
    },
];

/// The values of figure 8 in the paper's text: the generation's key, the system's key, and numbers
/// sorted per second.
const PUBLISHED: [(&str, &str, f64); 2] = [("older", "base", 2_559_000.0), ("newer", "fast", 3_136_000.0)];

/// A cell: the numbers that one boot of a system sorted on a processor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sorting {
    /// The system's key.
    pub system: String,
    /// The generation's key.
    pub generation: String,
    /// The seed of the boot.
    pub seed: u64,
    /// How many numbers all processes sorted.
    pub numbers: u64,
    /// The time over which the numbers were counted, seconds of the guest's time; not 0.
    pub seconds: u32,
}

/// A bar of the figure: a system on a processor.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Throughput {
    /// The generation of the processor.
    pub generation: &'static Generation,
    /// The system's key.
    pub system: &'static str,
    /// The paper's numbers sorted per second, where its text has them.
    pub published: Option<f64>,
    /// Numbers sorted per second over the seeds.
    pub measured: Spread,
}

/// The paper's conclusion: whether a newer processor with the fast system sorts more than an older processor
/// with the base system.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Upgrade {
    /// The factor in the paper.
    pub published: f64,
    /// The factor of the medians here.
    pub measured: f64,
    /// Whether the newer processor sorts more, as in the paper.
    pub verdict: Verdict,
}

/// The bars that were measured: both systems on the older processor, then on the newer processor.
pub fn throughputs(study: &Study) -> Vec<Throughput> {
    let of = |generation| SYSTEMS.iter().filter_map(move |system| throughput(study, generation, system));
    GENERATIONS.iter().flat_map(of).collect()
}

fn throughput(study: &Study, generation: &'static Generation, system: &'static System) -> Option<Throughput> {
    let is_of = |sorting: &&Sorting| sorting.generation == generation.key && sorting.system == system.key;
    let per_second = |sorting: &Sorting| sorting.numbers as f64 / f64::from(sorting.seconds.max(1));
    let measured = Spread::of(study.sorts.iter().filter(is_of).map(per_second).collect())?;
    let published = PUBLISHED.iter().find(|(known, of, _)| *known == generation.key && *of == system.key);
    Some(Throughput {
        generation,
        system: system.key,
        published: published.map(|&(_, _, numbers)| numbers),
        measured,
    })
}

/// The paper's conclusion for these bars; `None` if one of its two bars is missing.
pub fn upgrade(bars: &[Throughput]) -> Option<Upgrade> {
    let of = |key: &str, system: &str| median(bars, key, system);
    let [(_, _, before), (_, _, after)] = PUBLISHED;
    let measured = of("newer", "fast")? / of("older", "base").filter(|&numbers| numbers > 0.0)?;
    Some(Upgrade { published: after / before, measured, verdict: Verdict::of(measured > 1.0) })
}

/// How much less the fast system sorts than the base system on the same processor, percent of the medians;
/// `None` if one of the two was not measured.
pub fn loss_percent(bars: &[Throughput], generation: &Generation) -> Option<f64> {
    let [base, fast] = [0, 1].map(|nth| median(bars, generation.key, SYSTEMS[nth].key));
    Some(100.0 * (1.0 - fast? / base.filter(|&numbers| numbers > 0.0)?))
}

/// The median of a system's bar on a processor.
fn median(bars: &[Throughput], generation: &str, system: &str) -> Option<f64> {
    let bar = bars.iter().find(|bar| bar.generation.key == generation && bar.system == system);
    bar.map(|bar| bar.measured.median)
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn a_newer_processor_is_compared_with_the_older_as_in_the_paper() {
        let bars = throughputs(&study());
        let names: Vec<_> = bars.iter().map(|bar| (bar.generation.key, bar.system)).collect();
        assert_eq!(names, [("older", "base"), ("older", "fast"), ("newer", "base"), ("newer", "fast")]);
        assert_eq!((bars[0].measured.median, bars[0].published), (4_000_000.0, Some(2_559_000.0)));
        let upgrade = upgrade(&bars).expect("both are there");
        assert_eq!((upgrade.measured, upgrade.verdict), (1.75, Verdict::AsThen));
        assert!((1.22..1.23).contains(&upgrade.published), "{upgrade:?}");
        let losses = GENERATIONS.each_ref().map(|generation| loss_percent(&bars, generation));
        assert_eq!(losses, [Some(25.0), Some(12.5)]);
    }

    #[test]
    fn without_one_of_both_bars_there_is_no_verdict() {
        let mut study = study();
        study.sorts.retain(|sorting| sorting.generation == "newer");
        let bars = throughputs(&study);
        assert!(bars.len() == 2 && upgrade(&bars).is_none());
        study.sorts.clear();
        assert!(throughputs(&study).is_empty());
    }
}
