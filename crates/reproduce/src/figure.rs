//! Figures as data: what is drawn, without how.

use serde::Serialize;

use crate::study::Spread;

/// One of the thesis' figures, or a pair of them that show the same under the original and the new scheduler.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Topic {
    /// What it shows, in a few words.
    pub title: &'static str,
    /// Numbers and captions of the thesis' figures, the original scheduler's first.
    pub figures: Vec<(&'static str, &'static str)>,
    /// What is to be known of how it was made here.
    pub note: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Lines across, each with its name.
    pub lines: Vec<(f64, &'static str)>,
    /// One for each scheduler.
    pub panels: Vec<Panel>,
}

/// An axis that all panels of a topic share.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: &'static str,
    /// How values become places.
    pub scale: Scale,
    /// Its first value.
    pub low: f64,
    /// Its last value.
    pub high: f64,
    /// Values that are named, and their names.
    pub ticks: Vec<(f64, String)>,
}

/// How values become places.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Scale {
    Linear,
    Logarithmic,
}

/// What one figure shows of one scheduler.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Panel {
    /// The figure's number in the thesis.
    pub figure: &'static str,
    /// The scheduler.
    pub scheduler: String,
    /// What is drawn.
    pub drawn: Drawn,
}

/// What a panel shows.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    /// Curves.
    Curves(Vec<Curve>),
    /// A bar for each application, of parts one after another.
    Bars(Vec<Bar>),
    /// A stack for each load.
    Stacks(Vec<Stack>),
}

/// A curve.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Curve {
    /// Its name.
    pub name: &'static str,
    /// Whose colour it has.
    pub colour: Colour,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

/// A point of a curve, with the spread over the seeds.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: Spread,
}

/// A bar.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Bar {
    /// Its name.
    pub name: &'static str,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A stack of parts beside so many stressers.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Stack {
    /// Stressers.
    pub stressers: u32,
    /// Parts, the lowest first.
    pub parts: Vec<Part>,
    /// Frames lost, percent, where there are frames.
    pub lost_percent: Option<Spread>,
}

/// A part of a bar or stack.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Part {
    /// Whose.
    pub name: &'static str,
    /// Its colour.
    pub colour: Colour,
    /// How large.
    pub value: Spread,
}

/// Colours, the same for the same program in every figure.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words say it")]
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
    /// The class of style sheets.
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
    /// From 0, evenly; the last tick is the first at or above `high`.
    pub fn linear(label: &'static str, high: f64, unit: &str) -> Axis {
        let rough = (high / 5.0).max(1e-9);
        let magnitude = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = steps.into_iter().map(|n| n * magnitude).find(|&step| step >= rough * 0.999);
        let step = step.unwrap_or(rough);
        let count = (high / step - 1e-9).ceil().max(1.0) as u32;
        let ticks = (0..=count).map(|n| f64::from(n) * step).map(|tick| (tick, format!("{tick}{unit}")));
        Axis { label, scale: Scale::Linear, low: 0.0, high: f64::from(count) * step, ticks: ticks.collect() }
    }

    /// By powers of ten around some values, each named by `name`.
    pub fn logarithmic(
        label: &'static str,
        values: impl Iterator<Item = f64>,
        name: impl Fn(f64) -> String,
    ) -> Axis {
        let (mut low, mut high) = (f64::INFINITY, 0f64);
        for value in values.filter(|&value| value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let last = last.max(first + 1);
        let ticks = (first..=last).map(|power| 10f64.powi(power)).map(|tick| (tick, name(tick)));
        let (low, high) = (10f64.powi(first), 10f64.powi(last));
        Axis { label, scale: Scale::Logarithmic, low, high, ticks: ticks.collect() }
    }

    /// Where a value is, 0 to 1; values beyond its ends are at its ends.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        place.clamp(0.0, 1.0)
    }
}
