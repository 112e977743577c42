//! Draws horizontal bars, a row for each application.

use spry_page::chart::Canvas;

use super::{ROW, legend};
use crate::figure::{Bar, Colour, Topic};
use crate::words;

pub(super) fn draw(canvas: &mut Canvas, topic: &Topic, bars: &[Bar], (width, height): (f64, f64)) {
    for (value, name) in &topic.x.ticks {
        let x = width * topic.x.place(*value);
        canvas.upright("grid", (x, 0.0), height);
        canvas.text("middle", (x, height + 16.0), name);
    }
    canvas.text("middle", (width / 2.0, height + 35.0), topic.x.label);
    let mut shown: Vec<(&str, Colour)> = Vec::new();
    for (at, bar) in bars.iter().enumerate() {
        let y = at as f64 * ROW;
        canvas.text("end ink", (-8.0, y + ROW / 2.0 + 4.0), bar.name);
        let (mut before, mut values) = (0.0, Vec::new());
        for part in &bar.parts {
            let (from, to) =
                (width * topic.x.place(before), width * topic.x.place(before + part.value.median));
            let title = format!("{} {}", part.name, words::percent(part.value.median));
            let class = format!("part {}", part.colour.class());
            canvas.rectangle(&class, (from, y + 5.0), ((to - from).max(0.8), ROW - 10.0), &title);
            before += part.value.median;
            values.push(spry_page::words::digits(part.value.median));
            if !shown.iter().any(|(name, _)| *name == part.name)
                && bar.parts.len() > 1
                && part.name != bar.name
            {
                shown.push((part.name, part.colour));
            }
        }
        let x = width * topic.x.place(before) + 7.0;
        canvas.text("", (x, y + ROW / 2.0 + 4.0), &format!("{} %", values.join(" + ")));
    }
    legend(canvas, &shown, (width + 62.0, height + 35.0));
}
