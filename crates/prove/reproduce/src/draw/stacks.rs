//! Draws a stack of the programs that had the CPU for each load, and a line of the lost frames.

use spry_page::chart::{Canvas, Point};

use super::{DOT, NAME_GAP, WIDTH, frame, legend, up};
use crate::figure::{Colour, Stack, Topic};
use crate::words;

/// The part of its column's width that a stack fills.
const FILLED: f64 = 0.62;

pub(super) fn draw(canvas: &mut Canvas, topic: &Topic, stacks: &[Stack]) {
    let loads = &topic.x.ticks;
    let room = WIDTH / loads.len().max(1) as f64;
    // The loads are drawn as names, at equal distances.
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
    legend(canvas, &shown, (WIDTH + 10.0, y));
}

/// Draws the line of the lost frames. Returns the space that it takes in the legend.
fn lost(canvas: &mut Canvas, topic: &Topic, stacks: &[Stack], middle: impl Fn(f64) -> f64) -> f64 {
    let points: Vec<(Point, f64)> = stacks
        .iter()
        .filter_map(|stack| Some((f64::from(stack.stressers), stack.lost_percent?.median)))
        .map(|(load, percent)| ((middle(load), up(&topic.y, percent)), percent))
        .collect();
    if points.is_empty() {
        return 0.0;
    }
    canvas.curve("lost", points.iter().map(|point| point.0), "frames lost");
    for &(place, percent) in &points {
        canvas.dot("lostdot", place, DOT, &format!("frames lost {}", words::percent(percent)));
    }
    let (x, y) = (WIDTH + 10.0, 12.0);
    canvas.across("lost", (x - 3.0, y - 4.0), x + 13.0);
    canvas.dot("lostdot", (x + 5.0, y - 4.0), DOT, "frames lost");
    canvas.text("ink", (x + 18.0, y), "frames lost");
    1.4 * NAME_GAP
}
