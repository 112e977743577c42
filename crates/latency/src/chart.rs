//! Histograms as the article draws them: both axes logarithmic, a line a kernel.

use std::fmt::Write as _;

use spry_markup::escape;

use crate::article::BUCKET_NS;
use crate::histogram::Histogram;
use crate::words;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Columns a decade, where columns grow with latency.
const PER_DECADE: f64 = 40.0;
/// Colours that the style sheet has.
const COLOURS: usize = 6;

/// One line of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its name in the legend.
    pub name: &'a str,
    /// What it draws.
    pub histogram: &'a Histogram,
}

/// How latencies are put together for a chart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    /// Forty to a decade, from the shortest latency.
    Fine,
    /// The article's 100 us buckets; its axis begins at 0.1 ms, so the first bucket is drawn there.
    Article,
}

/// A point: latency, ns, and how many samples.
type Point = (f64, f64);

fn points(histogram: &Histogram, columns: Columns) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut last = None;
    for bucket in histogram.buckets() {
        let (key, at_ns) = match columns {
            Columns::Fine => {
                let column = ((bucket.middle_ns().max(1.0).log10() * PER_DECADE).floor()) as u64;
                (column, 10f64.powf((column as f64 + 0.5) / PER_DECADE))
            }
            Columns::Article => {
                let column = bucket.low_ns / BUCKET_NS;
                (column, ((column + 1) * BUCKET_NS) as f64)
            }
        };
        match points.last_mut().filter(|_| last == Some(key)) {
            Some((_, count)) => *count += bucket.count as f64,
            None => points.push((at_ns, bucket.count as f64)),
        }
        last = Some(key);
    }
    points
}

/// A logarithmic axis: whole decades.
struct Axis {
    first: i32,
    last: i32,
    start: f64,
    end: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, start: f64, end: f64) -> Axis {
        let first = values.clone().fold(f64::INFINITY, f64::min).max(1.0).log10().floor() as i32;
        let last = values.fold(1.0, f64::max).log10().ceil() as i32;
        Axis { first, last: last.max(first + 1), start, end }
    }

    fn place(&self, value: f64) -> f64 {
        let part = (value.max(1.0).log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        self.start + part * (self.end - self.start)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        (self.first..=self.last).map(|power| (10f64.powi(power), self.place(10f64.powi(power))))
    }
}

/// The chart as an SVG element of class `chart`; empty if there is nothing to draw.
pub fn draw(series: &[Series<'_>], columns: Columns) -> String {
    let lines: Vec<Vec<Point>> = series.iter().map(|series| points(series.histogram, columns)).collect();
    let all = || lines.iter().flatten();
    if all().next().is_none() {
        return String::new();
    }
    let x = Axis::over(all().map(|point| point.0), LEFT, WIDTH - RIGHT);
    let y = Axis::over([1.0].into_iter().chain(all().map(|point| point.1)), HEIGHT - BOTTOM, TOP);
    let mut svg = format!("<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">");
    for (value, at) in x.ticks() {
        _ = write!(svg, "<path class=\"grid\" d=\"M{at:.1} {:.1}V{:.1}\"/>", y.start, y.end);
        let name = words::duration(value);
        _ = write!(svg, "<text class=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{name}</text>", y.start + 16.0);
    }
    for (value, at) in y.ticks() {
        _ = write!(svg, "<path class=\"grid\" d=\"M{:.1} {at:.1}H{:.1}\"/>", x.start, x.end);
        let name = words::count(value as u64);
        _ = write!(svg, "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>", x.start - 6.0, at + 4.0);
    }
    _ = write!(
        svg,
        "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">latency</text><text class=\"middle\" transform=\"translate(12 {:.1}) rotate(-90)\">samples</text>",
        (x.start + x.end) / 2.0,
        HEIGHT - 10.0,
        (y.start + y.end) / 2.0
    );
    // The first lies over the others.
    for (nth, (line, series)) in lines.iter().zip(series).enumerate().rev() {
        line_of(&mut svg, line, series.name, nth, (&x, &y));
    }
    svg + "</svg>"
}

fn line_of(svg: &mut String, line: &[Point], name: &str, nth: usize, (x, y): (&Axis, &Axis)) {
    let mut path = String::new();
    for (at, (ns, count)) in line.iter().enumerate() {
        _ = write!(path, "{}{:.1} {:.1}", if at == 0 { "M" } else { "L" }, x.place(*ns), y.place(*count));
    }
    let title = escape(name);
    let colour = nth % COLOURS;
    let dashed = if nth >= COLOURS { " dashed" } else { "" };
    _ = write!(svg, "<path class=\"curve s{colour}{dashed}\" d=\"{path}\"><title>{title}</title></path>");
    // A line of one point has no length, and rare latencies are what is looked for.
    for (ns, count) in line {
        _ = write!(
            svg,
            "<circle class=\"s{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\"><title>{title}: {} at {}</title></circle>",
            x.place(*ns),
            y.place(*count),
            words::count(*count as u64),
            words::duration(*ns)
        );
    }
}

/// The names and colours of a chart's lines, as HTML.
pub fn legend(series: &[Series<'_>]) -> String {
    let keys = series.iter().enumerate().map(|(nth, series)| {
        let key = if nth >= COLOURS { "▧" } else { "■" };
        format!("<span class=\"key s{}\">{key}</span> {}", nth % COLOURS, escape(series.name))
    });
    format!("<p class=\"note\">{}</p>", keys.collect::<Vec<_>>().join(" &nbsp; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_columns_hold_every_sample_and_begin_at_a_tenth_of_a_millisecond() {
        let mut histogram = Histogram::default();
        histogram.record_many(20_000, 5);
        histogram.record_many(99_990, 2);
        histogram.record(100_000);
        histogram.record(45_250_000);
        let expected = vec![(100_000.0, 7.0), (200_000.0, 1.0), (45_300_000.0, 1.0)];
        assert_eq!(points(&histogram, Columns::Article), expected);
        let fine: f64 = points(&histogram, Columns::Fine).iter().map(|point| point.1).sum();
        assert_eq!(fine, 9.0);
    }

    #[test]
    fn every_point_lies_within_the_frame() {
        let mut histogram = Histogram::default();
        [0, 3, 1_000, 250_000_000_000].iter().for_each(|&ns| histogram.record_many(ns, 1 + ns % 7));
        let lines = points(&histogram, Columns::Fine);
        let x = Axis::over(lines.iter().map(|point| point.0), LEFT, WIDTH - RIGHT);
        assert!(lines.iter().all(|point| (LEFT..=WIDTH - RIGHT).contains(&x.place(point.0))));
    }

    #[test]
    fn names_cannot_end_an_element() {
        let mut histogram = Histogram::default();
        histogram.record(1_000);
        let series = [Series { name: "</svg><script>", histogram: &histogram }];
        let drawn = draw(&series, Columns::Fine) + &legend(&series);
        assert!(!drawn.contains("<script>"), "{drawn}");
        assert_eq!(draw(&[Series { name: "", histogram: &Histogram::default() }], Columns::Fine), "");
    }
}
