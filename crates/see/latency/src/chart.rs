//! Histograms as the article draws them: two logarithmic axes, a line a kernel.

use spry_page::chart::{self, Canvas, Scale};
use spry_page::words;

use crate::article::BUCKET_NS;
use crate::histogram::Histogram;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Columns a decade, where columns grow with latency.
const PER_DECADE: f64 = 40.0;
/// The radius of a dot.
const DOT: f64 = 2.0;

/// One line of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// The line's name in the legend.
    pub name: &'a str,
    /// The distribution that the line draws.
    pub histogram: &'a Histogram,
}

/// The columns into which a chart groups latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    /// Forty columns to a decade, from the shortest latency.
    Fine,
    /// The article's 100 us buckets; its axis begins at 0.1 ms, so the first bucket is drawn there.
    Article,
}

/// A point: latency, ns, and number of samples.
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

/// A logarithmic axis from one place to another.
struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
    start: f64,
    end: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Axis {
        let (scale, ticks) = Scale::decades(values);
        Axis { scale, ticks, start, end }
    }

    fn place(&self, value: f64) -> f64 {
        self.start + self.scale.place(value) * (self.end - self.start)
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
    let mut canvas = Canvas::default();
    frame(&mut canvas, &x, &y);
    // The first line is drawn last, so that it lies over the others.
    for (nth, (line, series)) in lines.iter().zip(series).enumerate().rev() {
        line_of(&mut canvas, line, series.name, nth, (&x, &y));
    }
    format!("<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">{}</svg>", canvas.into_svg())
}

fn frame(canvas: &mut Canvas, x: &Axis, y: &Axis) {
    for &value in &x.ticks {
        let at = x.place(value);
        canvas.upright("grid", (at, y.start), y.end);
        canvas.text("middle", (at, y.start + 16.0), &words::duration_round(value));
    }
    for &value in &y.ticks {
        let at = y.place(value);
        canvas.across("grid", (x.start, at), x.end);
        canvas.text("end", (x.start - 6.0, at + 4.0), &words::count(value as u64));
    }
    canvas.text("middle", ((x.start + x.end) / 2.0, HEIGHT - 10.0), "latency");
    canvas.upward_text((12.0, (y.start + y.end) / 2.0), "samples");
}

fn line_of(canvas: &mut Canvas, line: &[Point], name: &str, nth: usize, (x, y): (&Axis, &Axis)) {
    let class = chart::series(nth);
    let place = |&(ns, count): &Point| (x.place(ns), y.place(count));
    canvas.curve(&format!("curve {class}"), line.iter().map(place), name);
    // A line of one point has no length, and rare latencies matter most here.
    for point in line {
        let (ns, count) = *point;
        let title = format!("{name}: {} at {}", words::count(count as u64), words::duration_f64(ns));
        canvas.dot(&format!("dot {class}"), place(point), DOT, &title);
    }
}

/// The names and colours of a chart's lines, as HTML.
pub fn legend(series: &[Series<'_>]) -> String {
    chart::legend(series.iter().map(|series| series.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_article_s_columns_start_at_100_us_and_lose_no_sample() {
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
