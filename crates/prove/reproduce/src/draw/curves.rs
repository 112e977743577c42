//! Draws curves. Each has its name at its right end.

use spry_page::chart::{Canvas, Kind};
use spry_page::words::digits;

use super::{DOT, HEIGHT, NAME_GAP, WIDTH, frame, up};
use crate::figure::{Curve, Point, Topic};

/// Curves with more points than this are drawn without dots.
const DOTS_MAX: usize = 12;
/// The free space to the left of the first load and to the right of the last, in pixels.
const INSET: f64 = 14.0;

pub(super) fn draw(canvas: &mut Canvas, topic: &Topic, curves: &[Curve]) {
    let inset = if topic.x.scale.kind == Kind::Linear { INSET } else { 0.0 };
    let right = |value: f64| inset + (WIDTH - 2.0 * inset) * topic.x.place(value);
    frame(canvas, topic, right);
    for curve in curves {
        let class = curve.colour.class();
        let place = |point: &Point| (right(point.x), up(&topic.y, point.y.median));
        canvas.curve(&format!("curve {class}"), curve.points.iter().map(place), curve.name);
        if curve.points.len() > DOTS_MAX {
            continue;
        }
        for point in &curve.points {
            let (x, y) = place(point);
            if point.y.low < point.y.high {
                let (low, high) = (up(&topic.y, point.y.low), up(&topic.y, point.y.high));
                canvas.upright(&format!("spread {class}"), (x, low), high);
            }
            let title = format!("{}, {} at {}", curve.name, digits(point.y.median), point.x);
            canvas.dot(&format!("dot {class}"), (x, y), DOT, &title);
        }
    }
    names(canvas, topic, curves);
}

/// Writes the names beside the ends of their curves. Names that would overlap are moved apart.
fn names(canvas: &mut Canvas, topic: &Topic, curves: &[Curve]) {
    let mut names: Vec<(f64, &Curve)> = curves
        .iter()
        .filter_map(|curve| Some((up(&topic.y, curve.points.last()?.y.median) + 4.0, curve)))
        .collect();
    names.sort_by(|one, two| one.0.total_cmp(&two.0));
    let mut free = f64::NEG_INFINITY;
    for name in &mut names {
        name.0 = name.0.max(free);
        free = name.0 + NAME_GAP;
    }
    // Names that were moved below the frame are moved up again.
    let mut free = HEIGHT + 4.0;
    for name in names.iter_mut().rev() {
        name.0 = name.0.min(free);
        free = name.0 - NAME_GAP;
    }
    for (y, curve) in names {
        canvas.text(&format!("label {}", curve.colour.class()), (WIDTH + 8.0, y), curve.name);
    }
}
