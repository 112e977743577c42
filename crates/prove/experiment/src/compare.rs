//! Compares results: marks the differences that are larger than the differences between seeds.

use std::fmt::Write as _;

use crate::metric::{Better, Format, Metric, Unit};
use crate::model::{Load, Results, Sample, load_words};
use crate::table::short;

/// The rule of comparison, in words. It stands above every comparison.
pub const RULE: &str = "A difference counts (*) if the medians lie further apart than the wider of both \
                        spreads over seeds (largest less smallest). With one seed the spread is unknown (?).";

/// The reason why results cannot be compared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompareError {
    /// One of the results was recorded, the other was not.
    #[error(
        "one of these runs was recorded and the other was not: recording changes what happens, \
         so they are not compared"
    )]
    Recorded,
    /// The results are of different scenarios.
    #[error("these are results of different scenarios: {0} and {1}")]
    Scenario(String, String),
    /// The results are from different machines, and none of their metrics may be compared between machines.
    #[error(
        "{0} and {1}: between machines only shares and ratios may be compared (frames shown of frames due, \
         CPU shares, frames a second as a part of those beside the first load), and these results have none \
         of them in common"
    )]
    Machines(String, String),
    /// There is no cell that both results have.
    #[error("these results have no scheduler and load in common")]
    Nothing,
}

/// The result of comparing a metric's values.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The values are the same.
    Equal,
    /// The difference is not larger than the differences between seeds.
    Within,
    /// The difference is larger than the differences between seeds. `Change` has its direction:
    /// better or worse.
    Beyond(Change),
    /// The values differ, but there is a single seed, so the difference between seeds is unknown.
    Unknown,
}

/// The direction in which a value changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The value became better.
    Better,
    /// The value became worse.
    Worse,
    /// The value changed, and neither direction is better.
    Other,
}

/// Judges by the rule how two samples differ.
pub fn judge(metric: &Metric, first: &Sample, second: &Sample) -> Verdict {
    if first.values() == second.values() {
        return Verdict::Equal;
    }
    if first.values().len() < 2 || second.values().len() < 2 {
        return Verdict::Unknown;
    }
    let difference = second.median() - first.median();
    if difference.abs() <= first.range().max(second.range()) {
        return Verdict::Within;
    }
    Verdict::Beyond(match (metric.better(), difference > 0.0) {
        (Better::Neither, _) => Change::Other,
        (Better::Higher, true) | (Better::Lower, false) => Change::Better,
        _ => Change::Worse,
    })
}

/// A line of a comparison: one metric of one scheduler under one load.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The metric that is compared.
    pub metric: Metric,
    /// The way in which the compared values were made from the measured values.
    pub basis: Basis,
    /// The label of the scheduler.
    pub scheduler: String,
    /// The load under which the scheduler ran.
    pub load: Load,
    /// The values of the first results.
    pub first: Sample,
    /// The values of the second results.
    pub second: Sample,
    /// How the two samples differ.
    pub verdict: Verdict,
}

/// The kinds of compared values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Basis {
    /// The measured value itself.
    Itself,
    /// The value as a share of its whole, such as frames shown of frames due.
    OfWhole,
    /// The value divided by the same scheduler's median under the first load.
    OfFirstLoad,
}

/// The comparison of two results.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// A line for each cell and each metric.
    pub lines: Vec<Line>,
    /// Remarks for the reader of the comparison.
    pub remarks: Vec<String>,
}

impl Comparison {
    /// Compares the cells that both results have.
    ///
    /// # Errors
    /// If the results may not be compared, or have no cell in common.
    pub fn of(first: &Results, second: &Results) -> Result<Comparison, CompareError> {
        if first.scenario != second.scenario {
            return Err(CompareError::Scenario(first.scenario.clone(), second.scenario.clone()));
        }
        if first.inputs.is_recorded() != second.inputs.is_recorded() {
            return Err(CompareError::Recorded);
        }
        let is_one_machine = first.machine == second.machine;
        let mut lines = Vec::new();
        for metric in first.metrics() {
            let Some(basis) = basis(&metric, is_one_machine) else { continue };
            for scheduler in first.schedulers() {
                for load in first.loads() {
                    let derived = |results| derived(results, scheduler, load, &metric, basis);
                    let (Some(one), Some(other)) = (derived(first), derived(second)) else { continue };
                    let verdict = judge(&metric, &one, &other);
                    let (scheduler, load, metric) = (scheduler.to_owned(), load.clone(), metric.clone());
                    lines.push(Line { metric, basis, scheduler, load, first: one, second: other, verdict });
                }
            }
        }
        if lines.is_empty() {
            let is_common = first.cells.iter().any(|cell| has_cell(second, &cell.scheduler, &cell.vary));
            return Err(if is_common && !is_one_machine {
                CompareError::Machines(first.machine.clone(), second.machine.clone())
            } else {
                CompareError::Nothing
            });
        }
        Ok(Comparison { lines, remarks: remarks(first, second) })
    }

    /// The number of differences that are for the worse and larger than the differences between seeds.
    pub fn worse(&self) -> usize {
        self.lines.iter().filter(|line| line.verdict == Verdict::Beyond(Change::Worse)).count()
    }

    /// The comparison as text. Its columns have the names `first` and `second`.
    pub fn text(&self, first: &str, second: &str) -> String {
        let mut out = format!("{RULE}\n");
        for remark in &self.remarks {
            _ = writeln!(out, "{remark}");
        }
        for (at, line) in self.lines.iter().enumerate() {
            let is_new = at == 0 || self.lines[at - 1].metric != line.metric;
            if is_new {
                let group = self.lines.iter().filter(|other| other.metric == line.metric);
                out += &block(&group.collect::<Vec<_>>(), first, second);
            }
        }
        let count =
            |verdict: fn(&Verdict) -> bool| self.lines.iter().filter(|line| verdict(&line.verdict)).count();
        let beyond = count(|verdict| matches!(verdict, Verdict::Beyond(_)));
        let unknown = count(|verdict| *verdict == Verdict::Unknown);
        _ = writeln!(
            out,
            "\n{} figures compared: {beyond} differ by more than their spread, {} of them for the worse; \
             {unknown} differ with an unknown spread.",
            self.lines.len(),
            self.worse()
        );
        out
    }
}

fn has_cell(results: &Results, scheduler: &str, load: &Load) -> bool {
    results.cells.iter().any(|cell| cell.scheduler == scheduler && cell.vary == *load)
}

/// How a metric may be compared; `None` if it may not. Between machines times are not compared, because they
/// depend on how fast a machine is, and the lab does not model caches.
fn basis(metric: &Metric, is_one_machine: bool) -> Option<Basis> {
    match (is_one_machine, metric.unit()) {
        (true, _) | (false, Unit::Share) => Some(Basis::Itself),
        (false, Unit::PerSecond) => Some(Basis::OfFirstLoad),
        (false, Unit::Count) if metric.whole().is_some() => Some(Basis::OfWhole),
        (false, Unit::Count | Unit::Ns) => None,
    }
}

fn derived(results: &Results, scheduler: &str, load: &Load, metric: &Metric, basis: Basis) -> Option<Sample> {
    let sample = results.sample(scheduler, load, metric)?;
    let whole = match basis {
        Basis::Itself => return Some(sample),
        Basis::OfWhole => results.sample(scheduler, load, &metric.whole()?)?.median(),
        Basis::OfFirstLoad => {
            results.loads().into_iter().find_map(|load| results.sample(scheduler, load, metric))?.median()
        }
    };
    let parts = sample.values().iter().map(|value| value / whole);
    if whole > 0.0 { Sample::new(parts.collect()) } else { None }
}

fn remarks(first: &Results, second: &Results) -> Vec<String> {
    let mut remarks = Vec::new();
    if first.machine != second.machine {
        remarks.push(format!(
            "{} and {}: times are left out, since they depend on the machine; shares and ratios remain.",
            first.machine, second.machine
        ));
    }
    if first.machine == "lab" && second.machine == "lab" && first.inputs.hash == second.inputs.hash {
        if first.digest == second.digest {
            remarks.push("Equal inputs, equal figures: the run repeated.".to_owned());
        } else if first.cells.len() == second.cells.len() {
            remarks.push(format!(
                "Equal inputs ({}) and different figures: if both ran the same cells, \
                 the lab has not repeated; tell its authors.",
                short(&first.inputs.hash)
            ));
        }
        return remarks;
    }
    let parts = |results: &Results, name: &str| results.inputs.parts.get(name).cloned();
    let names = first.inputs.parts.keys().chain(second.inputs.parts.keys());
    let mut differing: Vec<&str> =
        names.filter(|name| parts(first, name) != parts(second, name)).map(String::as_str).collect();
    differing.sort_unstable();
    differing.dedup();
    if !differing.is_empty() {
        remarks.push(format!("Their inputs differ in: {}.", differing.join(", ")));
    }
    remarks
}

fn block(lines: &[&Line], first: &str, second: &str) -> String {
    let Some(line) = lines.first() else { return String::new() };
    let largest = lines.iter().map(|line| line.first.max().max(line.second.max())).fold(0.0, f64::max);
    let (format, what) = match line.basis {
        Basis::Itself => (Format::of(&line.metric, largest), line.metric.words()),
        Basis::OfWhole => {
            (Format::of(&Metric::new("cpu_share"), 1.0), format!("{}, of those due", line.metric.words()))
        }
        Basis::OfFirstLoad => (
            Format::of(&Metric::new("cpu_share"), 1.0),
            format!("{}, of those beside the first load", line.metric.words()),
        ),
    };
    let unit = if format.unit().is_empty() { String::new() } else { format!(", {}", format.unit()) };
    if lines.iter().all(|line| line.verdict == Verdict::Equal) {
        return format!("\n{what}: equal everywhere\n");
    }
    let mut out = format!("\n{what}{unit}\n");
    let name = |line: &Line| format!("{} {}", line.scheduler, load_words(&line.load)).trim_end().to_owned();
    let width = lines.iter().map(|line| name(line).chars().count()).max().unwrap_or(0);
    let columns: Vec<[String; 2]> = lines
        .iter()
        .map(|line| [format.with_spread(&line.first), format.with_spread(&line.second)])
        .collect();
    let widest = |at: usize, head: &str| {
        columns.iter().map(|texts| texts[at].chars().count()).chain([head.chars().count()]).max().unwrap_or(0)
    };
    let widths = [widest(0, first), widest(1, second)];
    let [left, right] = widths;
    _ = writeln!(out, "  {:width$}  {first:>left$}  {second:>right$}", "");
    for (line, [one, other]) in lines.iter().zip(&columns) {
        let (name, word) = (name(line), word(line.verdict));
        let text = format!("  {name:width$}  {one:>left$}  {other:>right$}  {word}");
        _ = writeln!(out, "{}", text.trim_end());
    }
    out
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "=",
        Verdict::Within => "",
        Verdict::Beyond(Change::Better) => "* better",
        Verdict::Beyond(Change::Worse) => "* worse",
        Verdict::Beyond(Change::Other) => "*",
        Verdict::Unknown => "?",
    }
}
