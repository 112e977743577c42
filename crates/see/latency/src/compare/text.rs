//! A comparison as text.

use std::fmt::Write as _;

use crate::compare::{Column, Comparison, Difference, POINTS, Point, RULE};
use crate::text::{interval, machine, what};
use spry_page::words::{count, duration, duration_f64};

/// The width of the rows' names, characters.
const HEAD: usize = 12;
/// The least width of a column, characters.
const COLUMN: usize = 22;

/// A page of text for a terminal that is `width` characters wide; ends with a line feed.
pub fn report(comparison: &Comparison, width: usize) -> String {
    let mut out = format!("Wake-up latencies, {}\n", comparison.basis.name());
    for column in &comparison.columns {
        _ = writeln!(out, "  {}: {}", column.name, described(column));
    }
    let widest = comparison.columns.iter().map(|column| column.name.chars().count() + 2).max().unwrap_or(0);
    let column = widest.max(COLUMN);
    let fitting = (width.saturating_sub(HEAD) / column).max(1);
    let rows = rows(comparison);
    for (nth, columns) in comparison.columns.chunks(fitting).enumerate() {
        out.push('\n');
        let mut line = |name: &str, cells: &[String]| {
            let mut line = format!("{name:<HEAD$}");
            for cell in cells {
                _ = write!(line, "{cell:>column$}");
            }
            _ = writeln!(out, "{}", line.trim_end());
        };
        line("", &columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>());
        for (name, cells) in &rows {
            line(name, &cells[nth * fitting..nth * fitting + columns.len()]);
        }
    }
    out += "\nWhich are later, by more than noise?\n";
    for point in POINTS {
        _ = writeln!(out, "  {:<8}{}", format!("{}:", point.words()), order(comparison, point));
    }
    for sentence in sentences(comparison) {
        _ = writeln!(out, "{sentence}");
    }
    out.push('\n');
    wrapped(&mut out, RULE, width);
    out
}

/// Describes the machine and the settings of a column's results.
pub(crate) fn described(column: &Column) -> String {
    let runs = match column.runs.len() {
        1 => String::new(),
        runs => format!("; {runs} runs pooled"),
    };
    format!("{}; {}{runs}", machine(&column.results), what(&column.results))
}

/// The table: each row's name, and a cell for each column.
pub(crate) fn rows(comparison: &Comparison) -> Vec<(String, Vec<String>)> {
    let row = |name: &str, of: &dyn Fn(&Column) -> String| {
        (name.to_owned(), comparison.columns.iter().map(of).collect::<Vec<_>>())
    };
    let mut rows = vec![
        row("samples", &|column| count(column.summary.count)),
        row("missed", &|column| count(column.results.missed())),
        row("mean", &|column| duration_f64(column.summary.mean_ns)),
        row("sd", &|column| column.summary.sd_ns.map_or_else(|| "-".to_owned(), duration_f64)),
        row("max", &|column| duration(column.summary.max_ns)),
    ];
    let several = comparison.columns.iter().any(|column| column.runs.len() > 1);
    if several {
        rows.push(row("  runs", &|column| over_runs(column, &|run| run.max_ns)));
    }
    let quantiles = comparison.columns.first().map_or(0, |column| column.summary.quantiles.len());
    for nth in 0..quantiles {
        let name = format!("{} %", comparison.columns[0].summary.quantiles[nth].quantile.percent());
        rows.push(row(&name, &|column| duration(column.summary.quantiles[nth].value_ns)));
        rows.push(row("  interval", &|column| interval(&column.summary.quantiles[nth])));
        if several {
            rows.push(row("  runs", &|column| over_runs(column, &|run| run.quantiles[nth].value_ns)));
        }
    }
    let thresholds = comparison.columns.first().map_or(0, |column| column.summary.percent_below.len());
    for nth in 0..thresholds {
        let name = format!("< {} ms", comparison.columns[0].summary.percent_below[nth].0);
        rows.push(row(&name, &|column| format!("{:.5} %", column.summary.percent_below[nth].1)));
    }
    rows
}

/// The least and the greatest value among a column's runs.
fn over_runs(column: &Column, of: &dyn Fn(&crate::Summary) -> u64) -> String {
    let values = || column.runs.iter().map(|run| of(&run.summary));
    match (values().min(), values().max()) {
        (Some(min), Some(max)) if column.runs.len() > 1 => {
            format!("{} to {}", duration(min), duration(max))
        }
        _ => "-".to_owned(),
    }
}

/// The columns in order: `a 8.81 us ~ b 8.90 us < c 12.5 us`.
pub(crate) fn order(comparison: &Comparison, point: Point) -> String {
    let mut out = String::new();
    for (column, stands) in comparison.order(point) {
        let sign = match stands {
            None => "",
            Some(Difference::Later | Difference::Earlier) => " < ",
            Some(Difference::Noise) => " ~ ",
            Some(Difference::Unknown) => " ? ",
        };
        _ = write!(out, "{sign}{} {}", column.name, duration(point.value_ns(&column.summary)));
    }
    out
}

/// The differences of each other column from the first column, in one sentence for each.
pub(crate) fn sentences(comparison: &Comparison) -> Vec<String> {
    let Some((first, others)) = comparison.columns.split_first() else { return Vec::new() };
    let sentence = |other: &Column| {
        let at = |wanted: Difference| {
            let points = POINTS.iter().filter(|&&point| super::judge(first, other, point) == wanted);
            points.map(|point| point.words()).collect::<Vec<_>>().join(", ")
        };
        let told = [
            ("later at", at(Difference::Later)),
            ("earlier at", at(Difference::Earlier)),
            ("the same but for noise at", at(Difference::Noise)),
            ("unknown for want of samples at", at(Difference::Unknown)),
        ];
        let told: Vec<String> =
            told.iter().filter(|(_, at)| !at.is_empty()).map(|(words, at)| format!("{words} {at}")).collect();
        format!("{} against {}: {}.", other.name, first.name, told.join("; "))
    };
    others.iter().map(sentence).collect()
}

/// Writes text in lines of at most `width` characters.
fn wrapped(out: &mut String, text: &str, width: usize) {
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            out.push('\n');
            used = 0;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Pooling;
    use crate::compare::tests::{compared, results};

    fn comparison() -> Comparison {
        let a = results("6.12", &[(10_000, 99_000), (250_000, 1_000)]);
        let b = results("7.3", &[(12_000, 99_950), (45_200_000, 50)]);
        compared(&[("runs/old.latency.json", a), ("runs/new.latency.json", b)], Pooling::Each)
    }

    #[test]
    fn the_table_has_percents_quantiles_and_maxima_of_each() {
        let text = report(&comparison(), 100);
        for part in ["old", "new", "99.00000 %", "99.95000 %", "45.2 ms", "unknown", "< 0.2 ms", "Kernel 7.3"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("50 %:   old 10.0 us < new 12.0 us"), "{text}");
        assert!(text.contains("new against old: later at 50 %, max; earlier at 99.9 %"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_gets_the_columns_below_each_other() {
        let tables =
            |width| report(&comparison(), width).lines().filter(|line| line.starts_with("mean ")).count();
        assert_eq!((tables(100), tables(40)), (1, 2));
    }
}
