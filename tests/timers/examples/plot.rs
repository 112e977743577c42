//! Draws accuracy against CPU from the measuring program's JSON: `measure --json | plot > picture.svg`.

use anyhow::{Context, Result};
use serde_json::Value;
use spry_page::chart::{Canvas, Scale};

const LEFT: f64 = 62.0;
const TOP: f64 = 14.0;
const WIDTH: f64 = 470.0;
const HEIGHT: f64 = 290.0;
const FULL_WIDTH: f64 = 800.0;
const FULL_HEIGHT: f64 = 356.0;

const STYLE: &str = ".figure text {fill: #5d6673; font: 11.5px system-ui, \"DejaVu Sans\", sans-serif;}\
    .figure .name {fill: #1b1f24;} .figure .end {text-anchor: end;} .figure .middle {text-anchor: middle;}\
    .figure .paper {fill: #fff;} .figure .grid {stroke: #dfe3e8; fill: none;}\
    .figure .curve {fill: none; stroke-width: 2; stroke-linejoin: round;}\
    .s0 {stroke: #1c7c43; fill: #1c7c43;} .s1 {stroke: #b3402a; fill: #b3402a;}\
    .s2 {stroke: #7a8594; fill: #7a8594;} .s3 {stroke: #2f62b5; fill: #2f62b5;}\
    .s4 {stroke: #8a5bb0; fill: #8a5bb0;} .s5 {stroke: #c28a17; fill: #c28a17;}";

/// The ways that are drawn: the name in the results, and the name in the picture.
const SERIES: [(&str, &str); 6] = [
    ("work firm, a check each", "firm, checked in the work: each"),
    ("work beside epoll_pwait2, slack", "epoll_pwait2 beside the work: slack"),
    ("sleep firm, overshoot", "firm, nothing but timers: overshoot"),
    ("work tokio firm, overshoot", "firm on tokio, with work: overshoot"),
    ("sleep tokio firm, overshoot", "firm on tokio, sleeping: overshoot"),
    ("work tokio's interval", "tokio's interval, with work"),
];

/// A measured way: its parameter in us, its CPU time in percent, its median lateness in us.
type Measured = (u64, f64, f64);

fn measured(results: &Value, name: &str) -> Result<Vec<Measured>> {
    let rows = results["rows"].as_array().context("the results have no rows")?;
    let number = |row: &Value, key: &str| row[key].as_f64().with_context(|| format!("a row without {key}"));
    let of = rows.iter().filter(|row| row["name"] == name);
    of.map(|row| {
        let setting_us = row["setting_us"].as_u64().context("a row without a setting")?;
        Ok((setting_us, number(row, "cpu_percent")?, number(row, "p50_us")?))
    })
    .collect()
}

fn axes(canvas: &mut Canvas, (x, x_ticks): &(Scale, Vec<f64>), (y, y_ticks): &(Scale, Vec<f64>)) {
    canvas.rectangle("paper", (0.0, 0.0), (FULL_WIDTH, FULL_HEIGHT), "");
    for &tick in x_ticks {
        let at = LEFT + WIDTH * x.place(tick);
        canvas.upright("grid", (at, TOP), TOP + HEIGHT);
        canvas.text("middle", (at, TOP + HEIGHT + 16.0), &format!("{tick}"));
    }
    for &tick in y_ticks {
        let at = TOP + HEIGHT * (1.0 - y.place(tick));
        canvas.across("grid", (LEFT, at), LEFT + WIDTH);
        canvas.text("end", (LEFT - 6.0, at + 4.0), &format!("{tick}"));
    }
    canvas.text("middle", (LEFT + WIDTH / 2.0, TOP + HEIGHT + 36.0), "CPU time for timers, % of one CPU");
    canvas.upward_text((16.0, TOP + HEIGHT / 2.0), "median lateness, us");
}

fn main() -> Result<()> {
    let results: Value =
        serde_json::from_reader(std::io::stdin()).context("the results on standard input")?;
    let series: Vec<Vec<Measured>> =
        SERIES.iter().map(|(name, _)| measured(&results, name)).collect::<Result<_>>()?;
    let all = || series.iter().flatten();
    let x = Scale::linear(all().map(|point| point.1).fold(1.0, f64::max));
    let y = Scale::decades(all().map(|point| point.2));
    let mut canvas = Canvas::default();
    axes(&mut canvas, &x, &y);
    for (nth, (points, (_, name))) in series.iter().zip(SERIES).enumerate() {
        let place = |&(_, cpu, late): &Measured| {
            (LEFT + WIDTH * x.0.place(cpu), TOP + HEIGHT * (1.0 - y.0.place(late)))
        };
        canvas.curve(&format!("curve s{nth}"), points.iter().map(place), name);
        for point in points {
            let (setting_us, cpu, late) = *point;
            let title = format!("{name} {setting_us} us: {cpu:.1} %, {late:.1} us");
            canvas.dot(&format!("s{nth}"), place(point), 3.2, &title);
        }
        let legend = TOP + 14.0 + 34.0 * nth as f64;
        let settings: Vec<String> = points.iter().map(|point| point.0.to_string()).collect();
        canvas.dot(&format!("s{nth}"), (LEFT + WIDTH + 22.0, legend - 4.0), 3.6, "");
        canvas.text("name", (LEFT + WIDTH + 32.0, legend), name);
        // A way without a parameter has 0.
        if settings != ["0"] {
            canvas.text("", (LEFT + WIDTH + 32.0, legend + 14.0), &format!("{} us", settings.join(", ")));
        }
    }
    println!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" width=\"{FULL_WIDTH}\" \
         height=\"{FULL_HEIGHT}\" viewBox=\"0 0 {FULL_WIDTH} {FULL_HEIGHT}\" role=\"img\">\
         <style>{STYLE}</style>{}</svg>",
        canvas.into_svg()
    );
    Ok(())
}
