//! Draws small multiples as SVG: one panel for each scheduler, all with the same axes. The loads lie along
//! the horizontal axis, the values along the vertical axis.

use spry_page::chart::{self, Canvas, Scale};

use crate::metric::{Format, Metric, Unit};
use crate::model::{Load, Results, Sample};
use crate::table;

/// A drawing and its size, in pixels.
pub(crate) struct Drawing {
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
/// The free space inside a panel to the left of its first load and to the right of its last.
const INSET: f64 = 22.0;
/// The radius of a dot.
const DOT: f64 = 2.6;

/// How the loads of a run are arranged in a panel. One variable lies along the horizontal axis; each
/// combination of the other variables has a curve.
pub(crate) struct Layout<'a> {
    x_key: Option<&'a str>,
    x_values: Vec<String>,
    series: Vec<(String, Vec<(usize, &'a Load)>)>,
}

impl<'a> Layout<'a> {
    /// Makes the layout. The variable with the most values lies along the horizontal axis.
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

    /// Explains the colours in HTML, if there is more than one.
    pub fn legend(&self) -> String {
        let names = self.series.iter().map(|(name, _)| name.as_str());
        if self.series.len() > 1 { chart::legend(names) } else { String::new() }
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

/// The vertical axis, which is the same in every panel.
struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
}

impl Axis {
    /// Makes the axis. It begins at 0, unless times differ so much that only a logarithmic axis shows them.
    fn of(metric: &Metric, values: &[f64], whole: Option<f64>) -> Axis {
        let high = values.iter().copied().chain(whole).fold(0.0, f64::max);
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let (scale, ticks) = if metric.unit() == Unit::Ns && low > 0.0 && high / low > 30.0 {
            Scale::decades([low, high])
        } else {
            // There is space above the highest dot for its value.
            Scale::linear(if high > 0.0 { high * 1.12 } else { 1.0 })
        };
        Axis { scale, ticks }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + PANEL_HEIGHT * (1.0 - self.scale.place(value))
    }
}

/// Draws the panels of one metric in a row.
pub(crate) fn row(results: &Results, metric: &Metric, layout: &Layout<'_>) -> Drawing {
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
    let mut canvas = Canvas::default();
    for &tick in &axis.ticks {
        canvas.text("end", (LEFT - 6.0, axis.y(tick) + 4.0), &format.figure(tick));
    }
    for (at, scheduler) in schedulers.iter().enumerate() {
        canvas.at((LEFT + at as f64 * (PANEL_WIDTH + GAP), 0.0), |canvas| {
            panel(canvas, results, metric, &Panel { scheduler, layout, axis: &axis, format, whole });
        });
    }
    Drawing { svg: canvas.into_svg(), width, height }
}

struct Panel<'a> {
    scheduler: &'a str,
    layout: &'a Layout<'a>,
    axis: &'a Axis,
    format: Format,
    whole: Option<f64>,
}

fn panel(canvas: &mut Canvas, results: &Results, metric: &Metric, panel: &Panel<'_>) {
    let layout = panel.layout;
    frame(canvas, panel);
    for (number, (_, points)) in layout.series.iter().enumerate() {
        let class = chart::series(number);
        let samples: Vec<(f64, Sample)> = points
            .iter()
            .filter_map(|&(at, load)| Some((layout.x(at), results.sample(panel.scheduler, load, metric)?)))
            .collect();
        let medians = samples.iter().map(|(x, sample)| (*x, panel.axis.y(sample.median())));
        canvas.curve(&format!("curve {class}"), medians, "");
        for (x, sample) in &samples {
            for &value in sample.values() {
                canvas.dot(&format!("dot {class}"), (*x, panel.axis.y(value)), DOT, "");
            }
            // Values are written beside the dots only if there is a single curve. Where several curves cross,
            // the values would overlap.
            if layout.series.len() == 1 {
                let label = panel.format.figure(sample.median());
                canvas.text("ink middle", (*x, panel.axis.y(sample.max()) - 7.0), &label);
            }
        }
    }
}

fn frame(canvas: &mut Canvas, panel: &Panel<'_>) {
    let (bottom, middle) = (TOP + PANEL_HEIGHT, PANEL_WIDTH / 2.0);
    for &tick in &panel.axis.ticks {
        canvas.across("grid", (0.0, panel.axis.y(tick)), PANEL_WIDTH);
    }
    if let Some(whole) = panel.whole {
        canvas.across("mark", (0.0, panel.axis.y(whole)), PANEL_WIDTH);
    }
    canvas.text("name middle", (middle, 14.0), panel.scheduler);
    for (at, value) in panel.layout.x_values.iter().enumerate() {
        canvas.text("middle", (panel.layout.x(at), bottom + 15.0), value);
    }
    if let Some(key) = panel.layout.x_key {
        canvas.text("middle", (middle, bottom + 31.0), key);
    }
}
