//! Several results side by side, and the differences that are more than noise.

mod html;
mod json;
mod name;
mod text;

pub use html::page;
pub use json::report as json;
pub use text::report as text;

use crate::histogram::{FINEST_NS, Histogram};
use crate::quantile::{Estimate, QUANTILES, Quantile};
use crate::results::Results;
use crate::summary::Summary;

/// The rule, in words, as it stands below every comparison.
pub const RULE: &str = "A < B: more than noise. The 95 % intervals of the quantiles do not overlap; \
                        at the maximum, so many samples of B are longer than A's longest that chance does it \
                        at most once in 40 times (Rosenbaum 1954, Tables for a nonparametric test of \
                        location); and where several runs are pooled, no run of A reaches one of B. A ~ B: \
                        noise. A ? B: too few samples to say. Intervals take samples to be independent.";
/// The probability with which chance alone may make a difference of the maxima: one of the two sides of 95 %.
const CHANCE: f64 = 0.025;

/// Why results are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// One of the results has no samples.
    #[error("{0} holds no samples")]
    Empty(String),
    /// There are no results to compare.
    #[error("nothing to compare")]
    Nothing,
    /// Results differ in a setting that must be equal.
    #[error(transparent)]
    Unlike(#[from] crate::Error),
}

/// The rule by which results are pooled into columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooling {
    /// Each result becomes a column of its own.
    Each,
    /// Measurements of the same kernel, preemption model, scheduler, source, rate, priority and load
    /// become one column.
    Alike,
}

/// The latencies that are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// The latencies as they were measured.
    Raw,
    /// The measured latencies, and the latencies that missed periods would have had.
    Corrected,
}

impl Basis {
    fn of(self, results: &Results) -> Histogram {
        match self {
            Basis::Raw => results.raw(),
            Basis::Corrected => results.corrected(),
        }
    }

    /// The name of the basis in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Raw => "raw",
            Basis::Corrected => "corrected",
        }
    }
}

/// One measurement of a column.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The measurement's file.
    pub file: String,
    /// The figures of the measurement.
    pub summary: Summary,
}

/// One result, or several pooled.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// A short name that no other column has.
    pub name: String,
    /// The results of all runs of the column, added up.
    pub results: Results,
    /// The latencies that are compared.
    pub histogram: Histogram,
    /// The figures of these latencies.
    pub summary: Summary,
    /// The measurements that the column is made of.
    pub runs: Vec<Run>,
}

/// A point at which two distributions are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// The latency below which this share of the samples lies.
    At(Quantile),
    /// The longest latency.
    Max,
}

/// All points, in order.
pub const POINTS: [Point; 4] =
    [Point::At(QUANTILES[0]), Point::At(QUANTILES[2]), Point::At(QUANTILES[3]), Point::Max];

impl Point {
    /// The point's name in JSON: `0.99`, `max`.
    pub fn name(self) -> &'static str {
        match self {
            Point::At(quantile) => quantile.name(),
            Point::Max => "max",
        }
    }

    /// The point's name in text: `99 %`, `max`.
    pub fn words(self) -> String {
        match self {
            Point::At(quantile) => format!("{} %", quantile.percent()),
            Point::Max => "max".to_owned(),
        }
    }

    fn estimate(self, summary: &Summary) -> Option<&Estimate> {
        let Point::At(quantile) = self else { return None };
        summary.quantiles.iter().find(|estimate| estimate.quantile == quantile)
    }

    /// The latency at this point, ns.
    pub fn value_ns(self, summary: &Summary) -> u64 {
        self.estimate(summary).map_or(summary.max_ns, |estimate| estimate.value_ns)
    }
}

/// The difference of a column from another column at a point.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// The column is later, by more than noise.
    Later,
    /// The column is earlier, by more than noise.
    Earlier,
    /// The difference may be noise.
    Noise,
    /// There are too few samples for a verdict.
    Unknown,
}

impl Difference {
    /// The name of the difference in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Difference::Later => "later",
            Difference::Earlier => "earlier",
            Difference::Noise => "noise",
            Difference::Unknown => "unknown",
        }
    }
}

/// Results side by side.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The columns in the order in which they were given; all others are compared with the first.
    pub columns: Vec<Column>,
    /// The latencies that are compared.
    pub basis: Basis,
}

impl Comparison {
    /// Compares results, each given with its file.
    ///
    /// # Errors
    /// Where there are no results, or a result has no samples.
    pub fn of(
        results: Vec<(String, Results)>,
        pooling: Pooling,
        basis: Basis,
    ) -> Result<Comparison, CompareError> {
        let files: Vec<String> = results.iter().map(|(file, _)| file.clone()).collect();
        let mut columns: Vec<Column> = Vec::new();
        for ((file, results), name) in results.into_iter().zip(name::of_files(&files)) {
            let summary =
                Summary::of(&basis.of(&results)).ok_or_else(|| CompareError::Empty(file.clone()))?;
            let run = Run { file, summary: summary.clone() };
            let alike = columns
                .iter_mut()
                .find(|column| pooling == Pooling::Alike && column.results.unlike(&results).is_none());
            if let Some(column) = alike {
                column.results.merge(results)?;
                column.runs.push(run);
            } else {
                let histogram = Histogram::default();
                columns.push(Column { name, histogram, results, summary, runs: vec![run] });
            }
        }
        if columns.is_empty() {
            return Err(CompareError::Nothing);
        }
        for column in &mut columns {
            column.histogram = basis.of(&column.results);
            column.summary =
                Summary::of(&column.histogram).ok_or_else(|| CompareError::Empty(column.name.clone()))?;
        }
        if pooling == Pooling::Alike {
            let names = name::of_setups(&columns.iter().map(|column| &column.results).collect::<Vec<_>>());
            columns.iter_mut().zip(names).for_each(|(column, name)| column.name = name);
        }
        Ok(Comparison { columns, basis })
    }

    /// The number of points, over all other columns, at which a column is later than the first, beyond noise.
    pub fn worse(&self) -> usize {
        let Some((first, others)) = self.columns.split_first() else { return 0 };
        let later = |other: &&Column| {
            POINTS.iter().filter(|&&point| judge(first, other, point) == Difference::Later).count()
        };
        others.iter().map(|other| later(&other)).sum()
    }

    /// The columns at a point, the earliest first, each except the first with its difference from the
    /// column before it.
    pub fn order(&self, point: Point) -> Vec<(&Column, Option<Difference>)> {
        let mut columns: Vec<&Column> = self.columns.iter().collect();
        columns.sort_by_key(|column| point.value_ns(&column.summary));
        let befores = [None].into_iter().chain(columns.iter().copied().map(Some));
        let pairs = columns.iter().copied().zip(befores);
        pairs.map(|(column, before)| (column, before.map(|before| judge(before, column, point)))).collect()
    }
}

/// The difference of the second column from the first at a point.
pub fn judge(first: &Column, second: &Column, point: Point) -> Difference {
    let (one, other) = (point.value_ns(&first.summary), point.value_ns(&second.summary));
    let found = match one.cmp(&other) {
        std::cmp::Ordering::Equal => return Difference::Noise,
        std::cmp::Ordering::Less => beyond(first, second, point),
        std::cmp::Ordering::Greater => beyond(second, first, point),
    };
    match found {
        None => Difference::Unknown,
        Some(false) => Difference::Noise,
        Some(true) if one < other => Difference::Later,
        Some(true) => Difference::Earlier,
    }
}

/// Whether the later column is later by more than noise; `None` if there are too few samples.
fn beyond(earlier: &Column, later: &Column, point: Point) -> Option<bool> {
    let is_beyond = match (point.estimate(&earlier.summary), point.estimate(&later.summary)) {
        (Some(earlier), Some(later)) => earlier.high_ns? + resolution_ns(later.low_ns?) < later.low_ns?,
        _ => chance(earlier, later) <= CHANCE,
    };
    // Runs differ from each other by more than the samples of one run do.
    let runs = || {
        let value = |run: &Run| point.value_ns(&run.summary);
        earlier.runs.iter().map(value).max() < later.runs.iter().map(value).min()
    };
    let several = earlier.runs.len() > 1 && later.runs.len() > 1;
    Some(is_beyond && (!several || runs()))
}

/// The greatest width of a histogram's buckets at a latency, both ns: a histogram does not distinguish
/// latencies that are closer than this.
fn resolution_ns(latency_ns: u64) -> u64 {
    (latency_ns / 1_000).max(FINEST_NS)
}

/// The probability that the k longest of all latencies are the later column's, if both columns are of one
/// distribution. Here k counts the later column's latencies above the earlier column's longest.
fn chance(earlier: &Column, later: &Column) -> f64 {
    let all = earlier.summary.count + later.summary.count;
    // Latencies of the bucket with the earlier measurement's longest latency are left out.
    let longest_ns = earlier.summary.max_ns;
    let above: u64 = later
        .histogram
        .buckets()
        .filter(|bucket| bucket.low_ns > longest_ns)
        .map(|bucket| bucket.count)
        .sum();
    let share = later.summary.count as f64 / all as f64;
    share.powf(above as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::results::{MeasuredMachine, SampledThread};
    use crate::source::Source;

    /// Results of a kernel with these pairs of a latency, ns, and its number of samples.
    pub(crate) fn results(kernel: &str, values: &[(u64, u64)]) -> Results {
        let mut latency = Histogram::default();
        values.iter().for_each(|&(ns, count)| latency.record_many(ns, count));
        let machine = MeasuredMachine { kernel: kernel.to_owned(), ..MeasuredMachine::default() };
        let thread =
            SampledThread { cpu: Some(0), latency, omitted: Histogram::default(), max_at_ns: 0, parts: None };
        let mut results = Results::new(machine, Source::Nanosleep, 2048, 80);
        results.threads.push(thread);
        results
    }

    pub(crate) fn compared(of: &[(&str, Results)], pooling: Pooling) -> Comparison {
        let results = of.iter().map(|(file, results)| ((*file).to_owned(), results.clone())).collect();
        Comparison::of(results, pooling, Basis::Raw).unwrap()
    }

    fn verdicts(comparison: &Comparison) -> Vec<Difference> {
        POINTS.iter().map(|&point| judge(&comparison.columns[0], &comparison.columns[1], point)).collect()
    }

    #[test]
    fn intervals_that_overlap_are_noise_and_others_are_not() {
        use Difference::{Earlier, Later, Noise};
        let a = results("a", &[(10_000, 98_000), (20_000, 2_000)]);
        let b = results("b", &[(11_000, 98_000), (20_000, 1_990), (900_000, 10)]);
        let comparison = compared(&[("a.json", a.clone()), ("b.json", b.clone())], Pooling::Each);
        assert_eq!(verdicts(&comparison), [Later, Noise, Noise, Later]);
        assert_eq!(comparison.worse(), 2);
        let turned = compared(&[("b.json", b), ("a.json", a)], Pooling::Each);
        assert_eq!(verdicts(&turned), [Earlier, Noise, Noise, Earlier]);
        assert_eq!(turned.worse(), 0);
    }

    #[test]
    fn one_longer_sample_is_chance_and_six_are_not() {
        let base = results("a", &[(10_000, 10_000)]);
        for (longer, expected) in [(1, Difference::Noise), (5, Difference::Noise), (6, Difference::Later)] {
            // A half to the 5th is 1 in 32, to the 6th 1 in 64.
            let other = results("b", &[(10_000, 10_000 - longer), (50_000, longer)]);
            let comparison = compared(&[("a", base.clone()), ("b", other)], Pooling::Each);
            assert_eq!(
                judge(&comparison.columns[0], &comparison.columns[1], Point::Max),
                expected,
                "{longer}"
            );
        }
    }

    #[test]
    fn too_few_samples_for_a_quantile_leave_it_unknown() {
        let comparison = compared(
            &[("a", results("a", &[(10_000, 100)])), ("b", results("b", &[(90_000, 100)]))],
            Pooling::Each,
        );
        assert_eq!(verdicts(&comparison)[..3], [Difference::Later, Difference::Unknown, Difference::Unknown]);
    }

    #[test]
    fn pooled_runs_that_overlap_are_noise_at_any_sample_count() {
        let run = |kernel, ns| results(kernel, &[(ns, 100_000)]);
        let files = |last| {
            [
                ("a1", run("a", 10_000)),
                ("a2", run("a", 12_000)),
                ("b1", run("b", 15_000)),
                ("b2", run("b", last)),
            ]
        };
        let apart = compared(&files(14_000), Pooling::Alike);
        let names: Vec<_> =
            apart.columns.iter().map(|column| (column.name.as_str(), column.runs.len())).collect();
        assert_eq!(names, [("a", 2), ("b", 2)]);
        assert_eq!(apart.columns[0].summary.count, 200_000);
        assert_eq!(verdicts(&apart)[0], Difference::Later);
        let mixed = compared(&files(11_000), Pooling::Alike);
        assert_eq!(verdicts(&mixed)[0], Difference::Noise);
    }

    #[test]
    fn the_order_at_a_point_says_where_more_than_noise_lies_between() {
        let comparison = compared(
            &[
                ("c", results("c", &[(30_000, 1_000)])),
                ("a", results("a", &[(10_000, 1_000)])),
                ("b", results("b", &[(10_000, 999), (10_100, 1)])),
            ],
            Pooling::Each,
        );
        let order = comparison.order(POINTS[0]);
        let words: Vec<_> = order.iter().map(|(column, stands)| (column.name.as_str(), *stands)).collect();
        assert_eq!(words, [("a", None), ("b", Some(Difference::Noise)), ("c", Some(Difference::Later))]);
    }

    #[test]
    fn results_without_samples_are_refused_by_name() {
        let none = Comparison::of(vec![("a.json".into(), results("a", &[]))], Pooling::Each, Basis::Raw);
        assert_eq!(none.unwrap_err().to_string(), "a.json holds no samples");
        let nothing = Comparison::of(Vec::new(), Pooling::Each, Basis::Raw);
        assert!(matches!(nothing, Err(CompareError::Nothing)));
    }
}
