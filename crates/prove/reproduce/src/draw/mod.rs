//! Draws figures as SVG: panels side by side, with the same axes.

mod bars;
mod curves;
mod stacks;

use spry_page::chart::{Canvas, Point};
use spry_page::style;

use crate::figure::{Axis, Colour, Panel, Plot, Topic};

/// The style sheet that only the figures use.
pub(crate) const STYLE: &str = include_str!("chart.css");

const LEFT: f64 = 74.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 250.0;
/// The width to the right of each panel for the names of its curves or bars, in pixels.
const RIGHT: f64 = 150.0;
/// The least distance of two names that stand one above the other, in pixels.
const NAME_GAP: f64 = 15.0;
/// The height of a row of bars, in pixels.
const ROW: f64 = 27.0;

/// The radius of a dot.
const DOT: f64 = 3.2;

/// A topic's panels, or the panels of one figure only, as a whole SVG.
pub fn figure(topic: &Topic, number: Option<&str>) -> String {
    let panels: Vec<&Panel> =
        topic.panels.iter().filter(|panel| number.is_none_or(|number| panel.figure == number)).collect();
    let (left, size) = match panels.first().map(|panel| &panel.drawn) {
        Some(Plot::Bars(bars)) => (2.0 * LEFT, (WIDTH - LEFT, ROW * bars.len() as f64)),
        _ => (LEFT, (WIDTH, HEIGHT)),
    };
    let panel_width = left + size.0 + RIGHT;
    let (width, height) = (panel_width * panels.len().max(1) as f64, TOP + size.1 + BOTTOM);
    let mut canvas = Canvas::default();
    for (at, panel) in panels.iter().enumerate() {
        canvas.at((at as f64 * panel_width + left, TOP), |canvas| {
            canvas.text("name", (0.0, -12.0), &format!("{}: {}", panel.figure, panel.scheduler));
            match &panel.drawn {
                Plot::Curves(drawn) => curves::draw(canvas, topic, drawn),
                Plot::Bars(drawn) => bars::draw(canvas, topic, drawn, size),
                Plot::Stacks(drawn) => stacks::draw(canvas, topic, drawn),
            }
        });
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" width=\"{width:.0}\" \
         height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\
         <rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>{}</svg>",
        canvas.into_svg()
    )
}

/// A figure as a file of its own.
pub fn file(topic: &Topic, number: &str) -> String {
    let svg = figure(topic, Some(number));
    let style = style::picture(&svg, STYLE);
    svg.replacen("<rect class=\"paper\"", &format!("<style>\n{style}</style><rect class=\"paper\""), 1) + "\n"
}

/// Draws the frame of a panel with both axes.
pub(super) fn frame(canvas: &mut Canvas, topic: &Topic, x_places: impl Fn(f64) -> f64) {
    for (value, name) in &topic.y.ticks {
        let y = up(&topic.y, *value);
        canvas.across("grid", (0.0, y), WIDTH);
        canvas.text("end", (-8.0, y + 4.0), name);
    }
    for (value, name) in &topic.x.ticks {
        canvas.text("middle", (x_places(*value), HEIGHT + 16.0), name);
    }
    canvas.text("middle", (WIDTH / 2.0, HEIGHT + 35.0), topic.x.label);
    canvas.upward_text((-LEFT + 14.0, HEIGHT / 2.0), topic.y.label);
    for (value, name) in &topic.lines {
        let y = up(&topic.y, *value);
        canvas.across("mark", (0.0, y), WIDTH);
        canvas.text("", (4.0, y - 4.0), name);
    }
}

/// Draws a legend: the colours with their names in a column, downwards from a point.
pub(super) fn legend(canvas: &mut Canvas, names: &[(&str, Colour)], (x, y): Point) {
    for (at, (name, colour)) in names.iter().enumerate() {
        let y = y + at as f64 * NAME_GAP;
        canvas.rectangle(&format!("part {}", colour.class()), (x, y - 9.0), (10.0, 10.0), name);
        canvas.text("", (x + 15.0, y), name);
    }
}

/// The distance of a value from the top of a panel.
pub(super) fn up(axis: &Axis, value: f64) -> f64 {
    HEIGHT * (1.0 - axis.place(value))
}
