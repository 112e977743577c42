//! Repeats the article on scheduler latency (Williams 2002, Measuring Scheduler Latency): the kernels, the
//! loads beside which they are measured, and the results.

mod boot;
mod cells;
mod claims;
mod json;
mod page;
mod published;
mod text;

use serde::{Deserialize, Serialize};
use spry_latency::compare::{Basis, Column, Comparison, Difference, Point, Pooling};
use spry_latency::{Culprit, Histogram, QUANTILES, Results};
use spry_page::words::{count, duration};

pub use cells::{Laboratory, Request};
pub use claims::{CLAIMS, Claim, ClaimResult, Outcome, found};
pub use json::report as json;
pub use page::page;
pub use published::{PUBLISHED, PublishedKernel};
pub use text::report as text;

/// The point of the distribution by which kernels are ranked.
pub const RANKED_AT: Point = Point::At(QUANTILES[2]);
/// How many culprits are shown for a kernel beside a load.
const CULPRITS_SHOWN: usize = 3;
/// How many stack frames are shown for each culprit.
const FRAMES_SHOWN: usize = 4;

/// A kernel that is measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel's name in this study.
    pub key: &'static str,
    /// The lab's name for the kernel.
    pub choice: &'static str,
    /// The preemption model that is set at boot; `None` if the kernel has one model only.
    pub preempt: Option<&'static str>,
    /// The article's kernel for which this kernel stands, if any.
    pub stands_for: Option<&'static str>,
}

/// All kernels that are measured. The present kernel without preemption has explicit preemption points. The
/// article's kernel got such points by a patch.
pub const KERNELS: [Kernel; 6] = [
    Kernel { key: "stable-none", choice: "stable", preempt: Some("none"), stands_for: Some("vanilla") },
    Kernel {
        key: "stable-voluntary",
        choice: "stable",
        preempt: Some("voluntary"),
        stands_for: Some("low-latency"),
    },
    Kernel { key: "stable-full", choice: "stable", preempt: Some("full"), stands_for: Some("preempt") },
    Kernel { key: "newest-lazy", choice: "newest", preempt: Some("lazy"), stands_for: None },
    Kernel { key: "newest-full", choice: "newest", preempt: Some("full"), stands_for: None },
    Kernel { key: "newest-rt", choice: "newest-rt", preempt: None, stands_for: None },
];

/// A load beside which the kernels are measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    /// The load's name, which `spry load list` shows.
    pub key: &'static str,
    /// The counterpart of the load in the article, or its own origin.
    pub stands_for: &'static str,
    /// Whether the quick version of the study has the load too.
    pub quick: bool,
}

/// The loads of the article, and the long writes, which came after it.
pub const LOADS: [Load; 7] = [
    Load {
        key: "nfs-compile",
        stands_for: "the article's NFS-COMPILE: twelve C files instead of a kernel",
        quick: false,
    },
    Load { key: "ttcp", stands_for: "the article's TTCP", quick: false },
    Load { key: "fifos-mmap", stands_for: "the article's FIFOS_MMAP", quick: false },
    Load { key: "p3-fpu", stands_for: "the article's P3_FPU", quick: false },
    Load { key: "fs", stands_for: "the article's FS", quick: true },
    Load { key: "crashme", stands_for: "the article's CRASHME", quick: false },
    Load {
        key: "kernel-cpu",
        stands_for: "writes of 8 MB each (Time-Sensitive Linux, figure 3)",
        quick: true,
    },
];

/// A cell: one boot of one kernel beside one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The kernel's key.
    pub kernel: String,
    /// The load's key.
    pub load: String,
    /// The seed of the boot.
    pub seed: u64,
    /// The results of the measurement.
    pub results: Results,
    /// The results of a second measurement in the same boot, which splits the latencies and names culprits.
    /// Splitting costs a microsecond, so the first measurement does without it.
    pub split: Results,
}

/// All measurements of the study.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Study {
    /// The cells, in any order.
    pub cells: Vec<Cell>,
}

/// The measurements of all kernels beside one load.
#[derive(Clone, PartialEq, Debug)]
pub struct LoadComparison {
    /// The kernels' latencies, side by side.
    pub comparison: Comparison,
    /// The split results of each kernel, in the same order. They give the reasons for long latencies.
    whys: Vec<Results>,
}

impl Study {
    /// The kernels beside a load, in the order of [`KERNELS`]. The seeds of each kernel are pooled. `None` if
    /// no cell has samples.
    pub fn beside(&self, load: &str) -> Option<LoadComparison> {
        let measured = KERNELS.iter().filter_map(|kernel| {
            let column = self.pooled(kernel, load, |cell| &cell.results)?;
            Some((column, self.pooled(kernel, load, |cell| &cell.split)?.results))
        });
        let (columns, whys): (Vec<Column>, Vec<Results>) = measured.unzip();
        let comparison = Comparison { columns, basis: Basis::Raw };
        (!comparison.columns.is_empty()).then_some(LoadComparison { comparison, whys })
    }

    /// Each load with its comparison, in the order of [`LOADS`].
    pub fn loads(&self) -> Vec<(&'static Load, LoadComparison)> {
        LOADS.iter().filter_map(|load| Some((load, self.beside(load.key)?))).collect()
    }

    fn pooled(&self, kernel: &Kernel, load: &str, of: fn(&Cell) -> &Results) -> Option<Column> {
        let mut cells: Vec<&Cell> =
            self.cells.iter().filter(|cell| cell.kernel == kernel.key && cell.load == load).collect();
        cells.sort_by_key(|cell| cell.seed);
        let runs = cells.iter().map(|cell| (format!("seed {}", cell.seed), of(cell).clone())).collect();
        let mut comparison = Comparison::of(runs, Pooling::Alike, Basis::Raw).ok()?;
        let column = comparison.columns.swap_remove(0);
        Some(Column { name: kernel.key.to_owned(), ..column })
    }

    /// The latencies of a kernel beside all loads together, as the article measured them; `None` if
    /// there are none.
    pub fn together(&self, kernel: &Kernel) -> Option<Histogram> {
        let mut sum = Histogram::default();
        let cells = self.cells.iter().filter(|cell| cell.kernel == kernel.key);
        cells.for_each(|cell| sum.merge(&cell.results.raw()));
        (sum.count() > 0).then_some(sum)
    }

    /// The kernel's release; `None` if the kernel was not measured.
    pub fn release(&self, kernel: &Kernel) -> Option<&str> {
        let cell = self.cells.iter().find(|cell| cell.kernel == kernel.key)?;
        Some(&cell.results.machine.kernel)
    }
}

impl LoadComparison {
    /// Each kernel with its split results.
    fn kernels(&self) -> impl Iterator<Item = (&Column, &Results)> {
        self.comparison.columns.iter().zip(&self.whys)
    }
}

/// The kernels at a point of the distribution, in ascending order of latency, with their ranks. Kernels share
/// a rank if the difference between them may be noise.
pub fn ranks(comparison: &Comparison, point: Point) -> Vec<(usize, &Column)> {
    let mut place = 0;
    let order = comparison.order(point).into_iter().enumerate();
    order
        .map(|(at, (column, stands))| {
            if !matches!(stands, Some(Difference::Noise | Difference::Unknown)) {
                place = at + 1;
            }
            (place, column)
        })
        .collect()
}

/// The kernels in order, in words: `a 8.81 us ~ b 8.90 us < c 12.5 us`.
fn order(comparison: &Comparison, point: Point) -> String {
    let mut out = String::new();
    for (column, stands) in comparison.order(point) {
        out += match stands {
            None => "",
            Some(Difference::Later | Difference::Earlier) => " < ",
            Some(Difference::Noise) => " ~ ",
            Some(Difference::Unknown) => " ? ",
        };
        let latency_ns = point.value_ns(&column.summary);
        out += &format!("{} {}", column.name, duration(latency_ns));
    }
    out
}

/// The heads of the columns of the kernels' table.
const HEADS: [&str; 7] = ["kernel", "samples", "50 %", "99 %", "99.9 %", "max", "< 0.1 ms"];

/// A kernel's row of the kernels' table.
fn row(column: &Column) -> Vec<String> {
    let summary = &column.summary;
    let at = |name: &str| {
        let found = summary.quantiles.iter().find(|estimate| estimate.quantile.name() == name);
        found.map_or_else(|| "-".to_owned(), |estimate| duration(estimate.value_ns))
    };
    let below = summary.percent_below.first().map_or_else(|| "-".to_owned(), |(_, p)| format!("{p:.4} %"));
    vec![
        column.name.clone(),
        count(summary.count),
        at("0.5"),
        at("0.99"),
        at("0.999"),
        duration(summary.max_ns),
        below,
    ]
}

/// A culprit in words: the task, its way of delaying wake-ups, the number of delays, and the longest delay.
fn culprit(culprit: &Culprit) -> String {
    let shown = &culprit.stack[..culprit.stack.len().min(FRAMES_SHOWN)];
    let place = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(" < ")) };
    format!(
        "{} {}, {} times, {} at worst{place}",
        culprit.task,
        culprit.how.words(),
        count(culprit.count),
        duration(culprit.worst_ns)
    )
}

/// The first culprits of a kernel beside a load.
fn culprits(why: &Results) -> &[Culprit] {
    let all = why.culprits.as_deref().unwrap_or_default();
    &all[..all.len().min(CULPRITS_SHOWN)]
}

/// The capabilities that a kernel's measurements lacked, each only once.
fn notes(column: &Column, why: &Results) -> Vec<String> {
    let mut notes = column.results.lacks.clone();
    why.lacks.iter().for_each(|lack| {
        if !notes.contains(lack) {
            notes.push(lack.clone());
        }
    });
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use spry_latency::{End, MeasuredMachine, SampledThread, Source};

    /// Makes a cell with these latencies: pairs of a latency in ns and the number of samples that have it.
    pub(super) fn cell(kernel: &str, load: &str, seed: u64, latencies: &[(u64, u64)]) -> Cell {
        let machine = MeasuredMachine { kernel: format!("Linux of {kernel}"), ..MeasuredMachine::default() };
        let mut results = Results::new(machine, Source::Nanosleep, 2048, 80);
        let mut latency = Histogram::default();
        latencies.iter().for_each(|&(ns, count)| latency.record_many(ns, count));
        let omitted = Histogram::default();
        results.threads.push(SampledThread { cpu: Some(0), latency, omitted, max_at_ns: 0, parts: None });
        results.end = End::Complete;
        results.load = vec![load.to_owned()];
        Cell { kernel: kernel.to_owned(), load: load.to_owned(), seed, split: results.clone(), results }
    }

    pub(super) fn study() -> Study {
        let cells = vec![
            cell("stable-none", "fs", 1, &[(12_000, 50_000), (4_400_000, 700)]),
            cell("stable-none", "fs", 2, &[(12_000, 50_000), (4_500_000, 700)]),
            cell("stable-full", "fs", 2, &[(9_000, 50_000), (24_000, 30)]),
            cell("stable-full", "fs", 1, &[(9_000, 50_000), (24_000, 40)]),
            cell("stable-voluntary", "fs", 1, &[(9_000, 50_000), (9_500, 30)]),
            cell("stable-voluntary", "fs", 2, &[(9_000, 50_000), (9_500, 30)]),
            cell("newest-rt", "ttcp", 1, &[(7_000, 50_000)]),
        ];
        Study { cells }
    }

    #[test]
    fn seeds_are_pooled_and_kernels_stand_in_their_order() {
        let LoadComparison { comparison, .. } = study().beside("fs").expect("there are cells");
        let names: Vec<&str> = comparison.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["stable-none", "stable-voluntary", "stable-full"]);
        assert_eq!((comparison.columns[0].runs.len(), comparison.columns[0].summary.count), (2, 101_400));
        assert!(study().beside("p3-fpu").is_none());
        assert_eq!(study().loads().len(), 2);
    }

    #[test]
    fn kernels_that_only_noise_lies_between_share_a_place() {
        let LoadComparison { comparison, .. } = study().beside("fs").expect("there are cells");
        let places = |point| -> Vec<(usize, String)> {
            ranks(&comparison, point).iter().map(|(place, column)| (*place, column.name.clone())).collect()
        };
        let at = places(RANKED_AT);
        assert_eq!(at.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [1, 1, 3]);
        assert_eq!(at[2].1, "stable-none");
        let longest = places(Point::Max);
        assert_eq!(
            longest,
            [
                (1, "stable-voluntary".to_owned()),
                (2, "stable-full".to_owned()),
                (3, "stable-none".to_owned())
            ]
        );
    }

    #[test]
    fn all_loads_of_a_kernel_add_up_as_the_article_measured_them() {
        let together = study().together(&KERNELS[2]).expect("there are cells");
        assert_eq!((together.count(), together.max_ns()), (100_070, Some(24_000)));
        assert!(study().together(&KERNELS[3]).is_none());
    }

    #[test]
    fn a_row_has_the_figures_that_kernels_are_compared_by() {
        let LoadComparison { comparison, .. } = study().beside("fs").expect("there are cells");
        let row = row(&comparison.columns[0]);
        assert_eq!(row.len(), HEADS.len());
        assert_eq!(row[1..], ["101,400", "12.0 us", "4.40 ms", "4.50 ms", "4.50 ms", "98.6193 %"]);
    }
}
