//! Stacks of what had the CPU, one for each load, and a line of the frames lost.

use std::fmt::Write as _;

use super::{Canvas, NAME_GAP, WIDTH, frame, up};
use crate::figure::{Colour, Stack, Topic};
use crate::words;

/// The part of its room that a stack fills.
const FILLED: f64 = 0.62;

pub(super) fn draw(canvas: &mut Canvas, topic: &Topic, stacks: &[Stack]) {
    let loads = &topic.x.ticks;
    let room = WIDTH / loads.len().max(1) as f64;
    // Loads are names here: equally far apart.
    let middle = |load: f64| {
        let at = loads.iter().position(|(value, _)| *value == load).unwrap_or(0);
        (at as f64 + 0.5) * room
    };
    frame(canvas, topic, middle);
    let mut shown: Vec<(&str, Colour)> = Vec::new();
    for stack in stacks {
        let left = middle(f64::from(stack.stressers)) - room * FILLED / 2.0;
        let mut below = 0.0;
        for part in &stack.parts {
            let (low, high) = (up(&topic.y, below), up(&topic.y, below + part.value.median));
            let title = format!("{} {}", part.name, words::percent(part.value.median));
            let size = (room * FILLED, low - high);
            canvas.rectangle(&format!("part {}", part.colour.class()), (left, high), size, &title);
            below += part.value.median;
            if !shown.iter().any(|(name, _)| *name == part.name) {
                shown.push((part.name, part.colour));
            }
        }
    }
    let y = 12.0 + lost(canvas, topic, stacks, middle);
    shown.reverse();
    canvas.legend(&shown, WIDTH + 10.0, y);
}

/// The line of frames lost; how much of the legend it takes.
fn lost(canvas: &mut Canvas, topic: &Topic, stacks: &[Stack], middle: impl Fn(f64) -> f64) -> f64 {
    let points: Vec<(f64, f64)> = stacks
        .iter()
        .filter_map(|stack| Some((middle(f64::from(stack.stressers)), stack.lost_percent?.median)))
        .collect();
    if points.is_empty() {
        return 0.0;
    }
    let mut path = String::new();
    for &(x, value) in &points {
        let y = up(&topic.y, value);
        _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
    }
    canvas.path("lost", &path);
    for &(x, value) in &points {
        canvas.dot("lostdot", (x, up(&topic.y, value)), &format!("frames lost {}", words::percent(value)));
    }
    let (x, y) = (WIDTH + 10.0, 12.0);
    canvas.path("lost", &format!("M{:.1} {:.1}H{:.1}", x - 3.0, y - 4.0, x + 13.0));
    canvas.dot("lostdot", (x + 5.0, y - 4.0), "frames lost");
    canvas.text("ink", x + 18.0, y, "frames lost");
    1.4 * NAME_GAP
}
