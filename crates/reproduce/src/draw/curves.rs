//! Curves, each with its name at its end.

use std::fmt::Write as _;

use super::{Canvas, HEIGHT, NAME_GAP, WIDTH, frame, up};
use crate::figure::{Curve, Scale, Topic};
use crate::words;

/// Curves of more points show no dots.
const DOTS_MAX: usize = 12;
/// Room left and right of the first and last load.
const INSET: f64 = 14.0;

pub(super) fn draw(canvas: &mut Canvas, topic: &Topic, curves: &[Curve]) {
    let inset = if topic.x.scale == Scale::Linear { INSET } else { 0.0 };
    let right = |value: f64| inset + (WIDTH - 2.0 * inset) * topic.x.place(value);
    frame(canvas, topic, right);
    for curve in curves {
        let class = curve.colour.class();
        let mut path = String::new();
        for point in &curve.points {
            let (x, y) = (right(point.x), up(&topic.y, point.y.median));
            _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        }
        canvas.path(&format!("curve {class}"), &path);
        if curve.points.len() > DOTS_MAX {
            continue;
        }
        for point in &curve.points {
            let (x, y) = (right(point.x), up(&topic.y, point.y.median));
            if point.y.low < point.y.high {
                let (low, high) = (up(&topic.y, point.y.low), up(&topic.y, point.y.high));
                canvas.path(&format!("spread {class}"), &format!("M{x:.1} {low:.1}V{high:.1}"));
            }
            let title = format!("{}, {} at {}", curve.name, words::digits(point.y.median), point.x);
            canvas.dot(&format!("dot {class}"), (x, y), &title);
        }
    }
    names(canvas, topic, curves);
}

/// Names beside the ends of their curves, moved apart where they would meet.
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
    // What was moved below the frame moves up again.
    let mut free = HEIGHT + 4.0;
    for name in names.iter_mut().rev() {
        name.0 = name.0.min(free);
        free = name.0 - NAME_GAP;
    }
    for (y, curve) in names {
        canvas.text(&format!("label {}", curve.colour.class()), WIDTH + 8.0, y, curve.name);
    }
}
