//! Figures as data: their content without its drawing.

use serde::Serialize;
use spry_page::chart::Scale;

use crate::study::Spread;

/// A figure of the thesis, or two figures that show the same quantity under the original and
/// the new scheduler.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Topic {
    /// The topic's title, in a few words.
    pub title: &'static str,
    /// The numbers and captions of the thesis' figures. The original scheduler's figure comes first.
    pub figures: Vec<(&'static str, &'static str)>,
    /// The method by which the figure was made here, in words for the reader.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Horizontal lines, each with its name.
    pub lines: Vec<(f64, &'static str)>,
    /// The panels, one for each scheduler.
    pub panels: Vec<Panel>,
}

/// An axis that all panels of a topic share.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Axis {
    /// The quantity on the axis, with its unit.
    pub label: &'static str,
    /// The range of the axis, and whether it is logarithmic.
    #[serde(flatten)]
    pub scale: Scale,
    /// The values that are marked on the axis, and their labels.
    pub ticks: Vec<(f64, String)>,
}

/// A panel: the values of one scheduler in one figure.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Panel {
    /// The figure's number in the thesis.
    pub figure: &'static str,
    /// The name of the scheduler.
    pub scheduler: String,
    /// The curves, bars or stacks that are drawn.
    pub drawn: Plot,
}

/// The content of a panel.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// Curves over the horizontal axis.
    Curves(Vec<Curve>),
    /// A bar for each application. Its parts are drawn end to end.
    Bars(Vec<Bar>),
    /// A stack for each load.
    Stacks(Vec<Stack>),
}

/// A curve of points with a name and a colour.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Curve {
    /// The curve's name.
    pub name: &'static str,
    /// The curve's colour.
    pub colour: Colour,
    /// The curve's points, from left to right.
    pub points: Vec<Point>,
}

/// A point of a curve, with the spread over the seeds.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Point {
    /// The value on the horizontal axis.
    pub x: f64,
    /// The value on the vertical axis.
    pub y: Spread,
}

/// A bar of parts with a name.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Bar {
    /// The bar's name.
    pub name: &'static str,
    /// The bar's parts.
    pub parts: Vec<Part>,
}

/// A stack of parts: the measurement beside a number of stressers.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Stack {
    /// The number of stressers.
    pub stressers: u32,
    /// The parts, the lowest first.
    pub parts: Vec<Part>,
    /// The frames lost, percent; `None` if no frames are due.
    pub lost_percent: Option<Spread>,
}

/// A part of a bar or stack.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Part {
    /// The part's name.
    pub name: &'static str,
    /// The part's colour.
    pub colour: Colour,
    /// The part's size.
    pub value: Spread,
}

/// The colours. A program has the same colour in every figure.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    Emacs,
    OpenOffice,
    MPlayer,
    Xine,
    XServer,
    Quake,
    QuakeDemo,
    Compilation,
    Stresser,
    Others,
    Idle,
}

impl Colour {
    /// The name of the colour's class in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Colour::Emacs => "emacs",
            Colour::OpenOffice => "office",
            Colour::MPlayer => "mplayer",
            Colour::Xine => "xine",
            Colour::XServer => "xserver",
            Colour::Quake => "quake",
            Colour::QuakeDemo => "demo",
            Colour::Compilation => "compile",
            Colour::Stresser => "stresser",
            Colour::Others => "others",
            Colour::Idle => "idle",
        }
    }
}

impl Axis {
    /// A linear axis from 0. The last tick is the first tick at or above `high`.
    pub fn linear(label: &'static str, high: f64, unit: &str) -> Axis {
        let (scale, ticks) = Scale::linear(high);
        let ticks = ticks.into_iter().map(|tick| (tick, format!("{tick}{unit}"))).collect();
        Axis { label, scale, ticks }
    }

    /// A logarithmic axis. Its ticks are the powers of ten around these values. `name` gives each
    /// tick its label.
    pub fn logarithmic(
        label: &'static str,
        values: impl Iterator<Item = f64>,
        name: impl Fn(f64) -> String,
    ) -> Axis {
        let (scale, ticks) = Scale::decades(values);
        let ticks = ticks.into_iter().map(|tick| (tick, name(tick))).collect();
        Axis { label, scale, ticks }
    }

    /// The place of a value on the axis, from 0 to 1. Values beyond the ends of the axis are put at its ends.
    pub fn place(&self, value: f64) -> f64 {
        self.scale.place(value)
    }
}
