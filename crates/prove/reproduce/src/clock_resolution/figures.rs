//! Figure 7 again: the share of the signals to processes that always compute that was delivered within a
//! time. And figure 8: the throughput of sorting on an older and on a newer processor.

use super::{CASES, Case, Cell, SYSTEMS, Study, System, Tail, Throughput, throughputs};
use crate::figure::{Axis, Bar, Colour, Curve, Panel, Part, Plot, Point, Topic};
use crate::study::Spread;

/// The halves of the figure: the number of each, its caption, and the end of its axis, us.
const HALVES: [(&str, &str, f64); 2] = [
    ("7-left", "latency of signals to processes that always compute, 100 Hz", 500_000.0),
    ("7-right", "latency of signals to processes that always compute, 20,000 Hz", 1_000.0),
];

/// The processes of the curves, with their names and colours.
const CURVES: [(u32, &str, Colour); 4] = [
    (1, "1 process", Colour::Emacs),
    (2, "2", Colour::MPlayer),
    (4, "4", Colour::Xine),
    (8, "8", Colour::Quake),
];

/// The figures that were measured, each with the paper's printed values.
pub fn all(study: &Study) -> Vec<Topic> {
    let halves = SYSTEMS.iter().zip(HALVES).enumerate();
    let halves = halves.filter_map(|(nth, (system, half))| topic(study, system, nth, half));
    halves.chain(sorting(&throughputs(study))).collect()
}

/// Figure 8 in percent of the older processor with the base system; `None` if that base was not measured.
fn sorting(bars: &[Throughput]) -> Option<Topic> {
    let (title, caption) = ("what 8 competing processes sort", "throughput of sorting, 8 processes");
    let is_first = |bar: &&Throughput| bar.generation.shift > 0 && bar.system == SYSTEMS[0].key;
    let first = bars.iter().find(is_first).filter(|bar| bar.measured.median > 0.0)?;
    let whole = first.measured.median;
    let now = bars.iter().map(|bar| {
        let Spread { median, low, high } = bar.measured;
        let [median, low, high] = [median, low, high].map(|numbers| 100.0 * numbers / whole);
        drawn(bar, Spread { median, low, high })
    });
    let now: Vec<Bar> = now.collect();
    let then = bars.iter().filter_map(|bar| {
        let percent = 100.0 * bar.published? / first.published?;
        Some(drawn(bar, Spread { median: percent, low: percent, high: percent }))
    });
    let then: Vec<Bar> = then.collect();
    let all = now.iter().chain(&then).flat_map(|bar| &bar.parts);
    let high = all.map(|part| part.value.median).fold(100.0, f64::max);
    let panel = |scheduler: &str, bars| Panel {
        figure: "8",
        scheduler: scheduler.to_owned(),
        drawn: Plot::Bars(bars),
    };
    Some(Topic {
        title,
        figures: vec![("8", caption)],
        note: "Numbers sorted per second, in percent of the older processor with the base system. The paper \
               prints two of its bars."
            .to_owned(),
        x: Axis::linear("sorted, % of the older processor with 100 Hz", high, " %"),
        y: Axis::linear("", 1.0, ""),
        lines: Vec::new(),
        panels: vec![panel("the lab", now), panel("what the paper prints", then)],
    })
}

/// A bar of figure 8.
fn drawn(bar: &Throughput, value: Spread) -> Bar {
    let is_base = bar.system == SYSTEMS[0].key;
    let name = match (bar.generation.shift > 0, is_base) {
        (true, true) => "older, 100 Hz",
        (true, false) => "older, 20,000 Hz",
        (false, true) => "newer, 100 Hz",
        (false, false) => "newer, 20,000 Hz",
    };
    let colour = if is_base { Colour::Others } else { Colour::Quake };
    Bar { name, parts: vec![Part { name, colour, value }] }
}

fn topic(
    study: &Study,
    system: &'static System,
    nth: usize,
    (number, caption, high_us): (&'static str, &'static str, f64),
) -> Option<Topic> {
    let cont = |n: u32| CASES.iter().find(|case| case.kind == "CONT" && case.n == n);
    let measured = |&(n, name, colour): &(u32, &'static str, Colour)| {
        let first = study.of(system, cont(n)?).min_by_key(|cell| cell.seed)?;
        Some(Curve { name, colour, points: distribution(first) })
    };
    let curves: Vec<Curve> = CURVES.iter().filter_map(measured).collect();
    if curves.is_empty() {
        return None;
    }
    let then = CURVES.iter().filter_map(|&(n, name, colour)| {
        Some(Curve { name, colour, points: published(cont(n)?, system, nth) })
    });
    let then = then.filter(|curve| !curve.points.is_empty()).collect();
    let panel = |scheduler: &str, curves| Panel {
        figure: number,
        scheduler: scheduler.to_owned(),
        drawn: Plot::Curves(curves),
    };
    Some(Topic {
        title: caption,
        figures: vec![(number, caption)],
        note:
            "The part of the signals that were delivered within a time; here of seed 1. The paper's picture \
               is drawn from the values that it prints: within a tick, 90, 95 and 99 %."
                .to_owned(),
        x: Axis::linear("latency, us", high_us, ""),
        y: Axis::linear("signals, %", 100.0, " %"),
        lines: Vec::new(),
        panels: vec![
            panel(&format!("the lab, {}", system.about), curves),
            panel("what the paper prints", then),
        ],
    })
}

fn point(us: f64, percent: f64) -> Point {
    Point { x: us, y: Spread { median: percent, low: percent, high: percent } }
}

/// The latency at each half percent of a cell's signals.
fn distribution(cell: &Cell) -> Vec<Point> {
    let at = |nth: u32| {
        let part = f64::from(nth) / 200.0;
        point(cell.quantile_ns(part) as f64 / 1000.0, 100.0 * part)
    };
    (1..=200).map(at).collect()
}

/// The paper's values of a case's distribution, without the longest latency, which is far to the right.
fn published(case: &Case, system: &System, nth: usize) -> Vec<Point> {
    let tick_us = system.tick_ns as f64 / 1000.0;
    let within = case.within_tick.filter(|_| nth == 0);
    let mut points: Vec<Point> = within.map(|part| point(tick_us, 100.0 * part)).into_iter().collect();
    if let Some(Tail { p90, p95, p99, .. }) = case.table.map(|tails| tails[nth]) {
        points.extend([point(p90, 90.0), point(p95, 95.0), point(p99, 99.0)]);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;
    use crate::draw;

    #[test]
    fn each_half_has_the_measured_curves_and_what_the_paper_prints() {
        let topics = all(&study());
        assert_eq!(topics.iter().map(|topic| topic.panels.len()).collect::<Vec<_>>(), [2, 2, 2]);
        let Plot::Curves(curves) = &topics[0].panels[0].drawn else { panic!("no curves") };
        assert_eq!((curves.len(), curves[0].points.len()), (1, 200));
        assert_eq!((curves[0].points[179].x, curves[0].points[179].y.median), (378_000.0, 90.0));
        let Plot::Curves(then) = &topics[0].panels[1].drawn else { panic!("no curves") };
        assert_eq!(then.iter().map(|curve| curve.points.len()).collect::<Vec<_>>(), [1, 4, 1, 4]);
        assert_eq!((then[3].points[0].x, then[3].points[0].y.median), (10_000.0, 16.0));
        let svg = draw::file(&topics[1], "7-right");
        let Plot::Bars(bars) = &topics[2].panels[0].drawn else { panic!("no bars") };
        let percents: Vec<f64> = bars.iter().map(|bar| bar.parts[0].value.median).collect();
        assert_eq!(percents, [100.0, 75.0, 200.0, 175.0]);
        let Plot::Bars(then) = &topics[2].panels[1].drawn else { panic!("no bars") };
        assert_eq!(then.len(), 2);
        assert!(svg.contains("20,000 Hz") && svg.contains("what the paper prints"), "{svg}");
    }

    #[test]
    fn without_such_cells_there_is_no_figure() {
        let mut study = study();
        study.cells.retain(|cell| !cell.case.starts_with("cont"));
        study.sorts.retain(|sorting| sorting.system == "fast");
        assert!(all(&study).is_empty());
    }
}
