//! Small multiples as SVG: one panel a scheduler, all with the same axes; loads to the right, figures upwards.

use std::fmt::Write as _;

use spry_markup::escape;

use super::metric::{Format, Metric, Unit};
use super::model::{Load, Results};
use super::table;

/// A drawing and its size, in pixels.
pub(super) struct Drawing {
    pub svg: String,
    pub width: f64,
    pub height: f64,
}

const LEFT: f64 = 52.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;
const PANEL_WIDTH: f64 = 188.0;
const PANEL_HEIGHT: f64 = 132.0;
const GAP: f64 = 16.0;
/// Room inside a panel, left and right of its first and last load.
const INSET: f64 = 22.0;
/// How many series have a colour of their own.
const COLOURS: usize = 6;

/// How the loads of some results lie on a page: one variable to the right, a curve for each combination of the others.
pub(super) struct Layout<'a> {
    x_key: Option<&'a str>,
    x_values: Vec<String>,
    series: Vec<(String, Vec<(usize, &'a Load)>)>,
}

impl<'a> Layout<'a> {
    /// The variable with the most values goes to the right.
    pub fn of(results: &'a Results) -> Layout<'a> {
        let loads = results.loads();
        let keys: Vec<&str> =
            loads.first().map(|load| load.keys().map(String::as_str).collect()).unwrap_or_default();
        let mut x_key = None;
        let mut x_values = vec![String::new()];
        for key in keys {
            let values = distinct(&loads, key);
            if x_key.is_none() || values.len() > x_values.len() {
                (x_key, x_values) = (Some(key), values);
            }
        }
        let mut series: Vec<(String, Vec<(usize, &Load)>)> = Vec::new();
        for load in loads {
            let value = x_key.map(|key| word(load, key)).unwrap_or_default();
            let at = x_values.iter().position(|other| *other == value).unwrap_or(0);
            let name = other_words(load, x_key);
            match series.iter_mut().find(|(other, _)| *other == name) {
                Some((_, points)) => points.push((at, load)),
                None => series.push((name, vec![(at, load)])),
            }
        }
        Layout { x_key, x_values, series }
    }

    fn x(&self, at: usize) -> f64 {
        let room = PANEL_WIDTH - 2.0 * INSET;
        match self.x_values.len() {
            0 | 1 => PANEL_WIDTH / 2.0,
            many => INSET + room * at as f64 / (many - 1) as f64,
        }
    }

    /// What the colours mean, where there is more than one.
    pub fn legend(&self) -> Vec<(usize, &str)> {
        let names = self.series.iter().enumerate().map(|(at, (name, _))| (at % COLOURS, name.as_str()));
        if self.series.len() > 1 { names.collect() } else { Vec::new() }
    }
}

fn word(load: &Load, key: &str) -> String {
    load.get(key)
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .unwrap_or_default()
}

fn other_words(load: &Load, x_key: Option<&str>) -> String {
    let others = load.keys().filter(|key| Some(key.as_str()) != x_key);
    others.map(|key| format!("{key}={}", word(load, key))).collect::<Vec<_>>().join(", ")
}

fn distinct(loads: &[&Load], key: &str) -> Vec<String> {
    let mut values = Vec::new();
    for load in loads {
        let value = word(load, key);
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The upward axis, the same in every panel.
struct Axis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Axis {
    /// From 0, unless times differ so much that only a logarithm shows them.
    fn of(metric: &Metric, values: &[f64], whole: Option<f64>) -> Axis {
        let high = values.iter().copied().chain(whole).fold(0.0, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        if metric.unit() == Unit::Ns && low > 0.0 && high / low > 30.0 {
            let low = 10f64.powf(low.log10().floor());
            return Axis { low, high: 10f64.powf(high.log10().ceil()), is_logarithmic: true };
        }
        let high = if high > 0.0 { high * 1.12 } else { 1.0 };
        Axis { low: 0.0, high, is_logarithmic: false }
    }

    fn y(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        TOP + PANEL_HEIGHT * (1.0 - part)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            return (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect();
        }
        let rough = self.high / 4.0;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|n| n * magnitude).find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        (0..).map(|n| f64::from(n) * step).take_while(|&tick| tick <= self.high).collect()
    }
}

/// The panels of one metric, in a row.
pub(super) fn row(results: &Results, metric: &Metric, layout: &Layout<'_>) -> Drawing {
    let schedulers = results.schedulers();
    let mut values = Vec::new();
    for scheduler in &schedulers {
        for load in results.loads() {
            values.extend(
                results.sample(scheduler, load, metric).iter().flat_map(|sample| sample.values().to_vec()),
            );
        }
    }
    let whole = results.whole(metric);
    let axis = Axis::of(metric, &values, whole);
    let format = table::format(results, metric);
    let width = LEFT + schedulers.len() as f64 * (PANEL_WIDTH + GAP);
    let height = TOP + PANEL_HEIGHT + BOTTOM;
    let mut svg = String::new();
    for tick in axis.ticks() {
        let y = axis.y(tick);
        _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"end\">{}</text>",
            LEFT - 6.0,
            y + 4.0,
            format.figure(tick)
        );
    }
    for (at, scheduler) in schedulers.iter().enumerate() {
        let left = LEFT + at as f64 * (PANEL_WIDTH + GAP);
        _ = write!(svg, "<g transform=\"translate({left:.1} 0)\">");
        panel(&mut svg, results, metric, &Panel { scheduler, layout, axis: &axis, format, whole });
        svg += "</g>";
    }
    Drawing { svg, width, height }
}

struct Panel<'a> {
    scheduler: &'a str,
    layout: &'a Layout<'a>,
    axis: &'a Axis,
    format: Format,
    whole: Option<f64>,
}

fn panel(svg: &mut String, results: &Results, metric: &Metric, panel: &Panel<'_>) {
    let layout = panel.layout;
    frame(svg, panel);
    for (number, (_, points)) in layout.series.iter().enumerate() {
        let colour = number % COLOURS;
        let mut curve = String::new();
        let mut marks = String::new();
        for &(at, load) in points {
            let Some(sample) = results.sample(panel.scheduler, load, metric) else { continue };
            let (x, y) = (layout.x(at), panel.axis.y(sample.median()));
            _ = write!(curve, "{}{x:.1} {y:.1}", if curve.is_empty() { "M" } else { "L" });
            for &value in sample.values() {
                let y = panel.axis.y(value);
                _ = write!(marks, "<circle class=\"s{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\"/>");
            }
            // Where curves cross, figures would too.
            if layout.series.len() == 1 {
                let label = panel.format.figure(sample.median());
                let y = panel.axis.y(sample.max()) - 7.0;
                _ = write!(marks, "<text class=\"figure\" x=\"{x:.1}\" y=\"{y:.1}\">{label}</text>");
            }
        }
        _ = write!(svg, "<path class=\"curve s{colour}\" d=\"{curve}\"/>{marks}");
    }
}

fn frame(svg: &mut String, panel: &Panel<'_>) {
    let (bottom, middle) = (TOP + PANEL_HEIGHT, PANEL_WIDTH / 2.0);
    for tick in panel.axis.ticks() {
        let y = panel.axis.y(tick);
        _ = write!(svg, "<path class=\"grid\" d=\"M0 {y:.1}H{PANEL_WIDTH}\"/>");
    }
    if let Some(whole) = panel.whole {
        let y = panel.axis.y(whole);
        _ = write!(svg, "<path class=\"whole\" d=\"M0 {y:.1}H{PANEL_WIDTH}\"/>");
    }
    let name = escape(panel.scheduler);
    _ = write!(svg, "<text class=\"name\" x=\"{middle:.1}\" y=\"14\">{name}</text>");
    for (at, value) in panel.layout.x_values.iter().enumerate() {
        let x = panel.layout.x(at);
        _ = write!(
            svg,
            "<text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 15.0,
            escape(value)
        );
    }
    if let Some(key) = panel.layout.x_key {
        let y = bottom + 31.0;
        _ = write!(svg, "<text class=\"middle\" x=\"{middle:.1}\" y=\"{y:.1}\">{}</text>", escape(key));
    }
}
