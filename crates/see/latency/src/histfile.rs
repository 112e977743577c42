//! cyclictest's histogram file, so that scripts made for it can plot Spry's samples: a line a microsecond, a
//! column a thread.
//!
//! The format is taken from the output of `cyclictest -h US --histfile FILE`.

use std::fmt::Write as _;

use crate::histogram::Histogram;

/// Microseconds that get a line of their own, if no number is given.
pub const LINES_DEFAULT: usize = 10_000;
/// From here on, buckets are wider than a microsecond: a line would be finer than the samples.
pub const LINES_MAX: usize = 10_000;

/// Writes the threads' histograms: lines for 0 to `lines` - 1 us, longer latencies as overflows.
pub fn write(threads: &[&Histogram], lines: usize) -> String {
    let lines = lines.min(LINES_MAX);
    let columns: Vec<Vec<u64>> = threads.iter().map(|thread| column(thread, lines)).collect();
    let mut out = "# Histogram\n".to_owned();
    for us in 0..lines {
        let row: Vec<String> = columns.iter().map(|column| format!("{:06}", column[us])).collect();
        _ = writeln!(out, "{us:06} {}", row.join("\t"));
    }
    let totals = columns.iter().map(|column| format!("{:09}", column.iter().sum::<u64>()));
    _ = writeln!(out, "# Total: {}", words(totals));
    let figure =
        |value: fn(&Histogram) -> u64| words(threads.iter().map(|thread| format!("{:05}", value(thread))));
    _ = writeln!(out, "# Min Latencies: {}", figure(|thread| thread.min_ns().unwrap_or(0) / 1_000));
    _ = writeln!(out, "# Avg Latencies: {}", figure(|thread| thread.mean_ns().unwrap_or(0.0) as u64 / 1_000));
    _ = writeln!(out, "# Max Latencies: {}", figure(|thread| thread.max_ns().unwrap_or(0) / 1_000));
    let over =
        threads.iter().zip(&columns).map(|(thread, column)| thread.count() - column.iter().sum::<u64>());
    _ = writeln!(out, "# Histogram Overflows: {}", words(over.map(|count| format!("{count:05}"))));
    out
}

fn words(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Samples by whole microseconds.
fn column(histogram: &Histogram, lines: usize) -> Vec<u64> {
    let mut column = vec![0; lines];
    for bucket in histogram.buckets() {
        if let Some(count) = column.get_mut((bucket.low_ns / 1_000) as usize) {
            *count += bucket.count;
        }
    }
    column
}

/// The samples of one thread in a histogram file of cyclictest's form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Column {
    /// Samples by whole microseconds.
    pub counts: Vec<u64>,
    /// Latencies that are longer than the last line.
    pub overflows: u64,
    /// The longest latency, us.
    pub max_us: u64,
}

impl Column {
    /// The microsecond below which this part (0 to 1) of all samples is; `None` if it is among the overflows.
    pub fn quantile_us(&self, part: f64) -> Option<u64> {
        // The numbers come from a file: each may be as large as a `u64` can be.
        let all = self.counts.iter().chain([&self.overflows]).map(|&count| u128::from(count)).sum::<u128>();
        let rank = ((all as f64 * part).ceil() as u128).max(1);
        let mut below = 0;
        let at = self.counts.iter().position(|&count| {
            below += u128::from(count);
            below >= rank
        });
        at.map(|us| us as u64)
    }
}

/// Reads a histogram file, cyclictest's or Spry's; a column a thread. `None` if the text is no such file.
pub fn read(text: &str) -> Option<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(comment) = line.strip_prefix('#') {
            let Some((name, values)) = comment.split_once(':') else { continue };
            let set: fn(&mut Column, u64) = match name.trim() {
                "Max Latencies" => |column, value| column.max_us = value,
                "Histogram Overflows" => |column, value| column.overflows = value,
                _ => continue,
            };
            for (column, value) in columns.iter_mut().zip(values.split_whitespace()) {
                set(column, value.parse().ok()?);
            }
            continue;
        }
        let mut fields = line.split_whitespace().map(|field| field.parse::<u64>().ok());
        let us = usize::try_from(fields.next()??).ok()?;
        for (nth, count) in fields.enumerate() {
            if nth == columns.len() {
                columns.push(Column::default());
            }
            if columns[nth].counts.len() != us {
                return None;
            }
            columns[nth].counts.push(count?);
        }
    }
    (!columns.is_empty()).then_some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_histogram_reads_back() {
        let (mut one, mut two) = (Histogram::default(), Histogram::default());
        [999, 1_000, 1_999, 59_000, 1_693_000].iter().for_each(|&ns| one.record(ns));
        two.record_many(2_500, 3);
        let text = write(&[&one, &two], 60);
        let columns = read(&text).unwrap();
        assert_eq!((columns.len(), columns[0].counts.len()), (2, 60));
        assert_eq!(columns[0].counts[..3], [1, 2, 0]);
        assert_eq!((columns[0].counts[59], columns[0].overflows, columns[0].max_us), (1, 1, 1693));
        assert_eq!((columns[1].counts[2], columns[1].overflows), (3, 0));
        assert_eq!((columns[1].quantile_us(0.5), columns[0].quantile_us(0.99)), (Some(2), None));
    }

    #[test]
    fn the_form_is_cyclictests() {
        let mut histogram = Histogram::default();
        histogram.record_many(1_500, 2_980);
        let text = write(&[&histogram, &histogram], 3);
        let expected = "# Histogram\n000000 000000\t000000\n000001 002980\t002980\n000002 000000\t000000\n\
                        # Total: 000002980 000002980\n# Min Latencies: 00001 00001\n\
                        # Avg Latencies: 00001 00001\n\
                        # Max Latencies: 00001 00001\n# Histogram Overflows: 00000 00000\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn cyclictests_own_file_is_read() {
        let text = "# Histogram\n000000 000000\t000001\n000001 000004\t000007\n# Total: 000000004 000000008\n\
                    # Min Latencies: 00001 00000\n# Avg Latencies: 00001 00001\n\
                    # Max Latencies: 02141 00001\n\
                    # Histogram Overflows: 00001 00000\n# Histogram Overflow at cycle number:\n\
                    # Thread 0: 00004 # 00000 others\n# Thread 1:\n\n";
        let columns = read(text).unwrap();
        assert_eq!(columns[0], Column { counts: vec![0, 4], overflows: 1, max_us: 2141 });
        assert_eq!(columns[1], Column { counts: vec![1, 7], overflows: 0, max_us: 1 });
    }

    #[test]
    fn the_greatest_counts_that_a_file_can_have_are_added() {
        let most = u64::MAX;
        let text = format!("000000 {most}\n000001 {most}\n# Histogram Overflows: {most}\n");
        let columns = read(&text).unwrap();
        assert_eq!([0.3, 0.6, 0.9].map(|part| columns[0].quantile_us(part)), [Some(0), Some(1), None]);
    }

    #[test]
    fn a_file_that_is_no_histogram_is_refused() {
        for text in ["", "# Histogram\n", "hello\n", "000001 000000\n", "000000 abc\n"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
