//! Figures as SVG: panels side by side with the same axes.

mod bars;
mod curves;
mod stacks;

use std::fmt::Write as _;

use spry_markup::escape;

use crate::figure::{Axis, Colour, Drawn, Panel, Topic};

/// What every figure looks like.
pub(crate) const STYLE: &str = include_str!("chart.css");

const LEFT: f64 = 74.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 46.0;
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 250.0;
/// Beside each panel, for the names of what is drawn.
const RIGHT: f64 = 150.0;
/// Between two names, one above the other.
const NAME_GAP: f64 = 15.0;
/// A row of bars.
const ROW: f64 = 27.0;

/// A picture under way.
pub(super) struct Canvas {
    svg: String,
}

impl Canvas {
    /// A text at a place.
    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        _ = write!(self.svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }

    /// A path.
    pub(super) fn path(&mut self, class: &str, path: &str) {
        _ = write!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// A rectangle that tells its meaning to whoever points at it.
    pub(super) fn rectangle(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        _ = write!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\">\
             <title>{}</title></rect>",
            escape(title)
        );
    }

    /// A dot that tells its meaning to whoever points at it.
    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), title: &str) {
        _ = write!(
            self.svg,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"><title>{}</title></circle>",
            escape(title)
        );
    }

    /// Names of colours in a column, from a height downwards.
    pub(super) fn legend(&mut self, names: &[(&str, Colour)], x: f64, y: f64) {
        for (at, (name, colour)) in names.iter().enumerate() {
            let y = y + at as f64 * NAME_GAP;
            self.rectangle(&format!("part {}", colour.class()), (x, y - 9.0), (10.0, 10.0), name);
            self.text("", x + 15.0, y, name);
        }
    }
}

/// A topic's panels, or those of one figure alone, as a whole SVG.
pub fn figure(topic: &Topic, number: Option<&str>) -> String {
    let panels: Vec<&Panel> =
        topic.panels.iter().filter(|panel| number.is_none_or(|number| panel.figure == number)).collect();
    let (left, size) = match panels.first().map(|panel| &panel.drawn) {
        Some(Drawn::Bars(bars)) => (2.0 * LEFT, (WIDTH - LEFT, ROW * bars.len() as f64)),
        _ => (LEFT, (WIDTH, HEIGHT)),
    };
    let panel_width = left + size.0 + RIGHT;
    let (width, height) = (panel_width * panels.len().max(1) as f64, TOP + size.1 + BOTTOM);
    let mut canvas = Canvas { svg: String::new() };
    for (at, panel) in panels.iter().enumerate() {
        _ = write!(canvas.svg, "<g transform=\"translate({:.1} {TOP:.1})\">", at as f64 * panel_width + left);
        canvas.text("name", 0.0, -12.0, &format!("{}: {}", panel.figure, panel.scheduler));
        match &panel.drawn {
            Drawn::Curves(drawn) => curves::draw(&mut canvas, topic, drawn),
            Drawn::Bars(drawn) => bars::draw(&mut canvas, topic, drawn, size),
            Drawn::Stacks(drawn) => stacks::draw(&mut canvas, topic, drawn),
        }
        canvas.svg += "</g>";
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\
         <rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>{}</svg>",
        canvas.svg
    )
}

/// A figure as a file of its own.
pub fn file(topic: &Topic, number: &str) -> String {
    let svg = figure(topic, Some(number));
    // Programs that draw SVG files without a browser know no variables of style sheets.
    let style = plain(STYLE);
    svg.replacen("<rect class=\"paper\"", &format!("<style>{style}</style><rect class=\"paper\""), 1) + "\n"
}

/// The style sheet without variables: each rule by `--own` once for each colour.
fn plain(style: &str) -> String {
    let mut values = Vec::new();
    let mut colours = Vec::new();
    for (class, body) in rules(style) {
        for (name, value) in
            body.split(';').filter_map(|part| part.trim().strip_prefix("--")?.split_once(':'))
        {
            if name == "own" {
                colours.push((class, value.trim()));
            } else {
                values.push((name, value.trim()));
            }
        }
    }
    let mut out = String::new();
    for (selector, body) in rules(style).filter(|(_, body)| !body.trim_start().starts_with("--")) {
        let body = values
            .iter()
            .fold(body.to_owned(), |body, (name, value)| body.replace(&format!("var(--{name})"), value));
        if body.contains("var(--own)") {
            for (class, value) in &colours {
                _ = write!(out, "{selector}{class} {{{}}}", body.replace("var(--own)", value));
            }
        } else {
            _ = write!(out, "{selector} {{{body}}}");
        }
    }
    out
}

/// Selectors and bodies of a simple style sheet.
fn rules(style: &str) -> impl Iterator<Item = (&str, &str)> {
    let rules = style.split('}').filter_map(|rule| rule.split_once('{'));
    rules.map(|(selector, body)| (selector.rsplit("*/").next().unwrap_or(selector).trim(), body.trim()))
}

/// The frame of a panel with both axes.
pub(super) fn frame(canvas: &mut Canvas, topic: &Topic, x_places: impl Fn(f64) -> f64) {
    for (value, name) in &topic.y.ticks {
        let y = up(&topic.y, *value);
        canvas.path("grid", &format!("M0 {y:.1}H{WIDTH}"));
        canvas.text("end", -8.0, y + 4.0, name);
    }
    for (value, name) in &topic.x.ticks {
        canvas.text("middle", x_places(*value), HEIGHT + 16.0, name);
    }
    canvas.text("middle", WIDTH / 2.0, HEIGHT + 35.0, topic.x.label);
    let (x, y) = (-LEFT + 14.0, HEIGHT / 2.0);
    _ = write!(
        canvas.svg,
        "<text class=\"middle\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{}</text>",
        escape(topic.y.label)
    );
    for (value, name) in &topic.lines {
        let y = up(&topic.y, *value);
        canvas.path("mark", &format!("M0 {y:.1}H{WIDTH}"));
        canvas.text("", 4.0, y - 4.0, name);
    }
}

/// Where a value is, from the top of a panel.
pub(super) fn up(axis: &Axis, value: f64) -> f64 {
    HEIGHT * (1.0 - axis.place(value))
}
