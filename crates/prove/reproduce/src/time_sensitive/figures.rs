//! Figures 2 to 4: the skew of each frame over the time of the film, for today's systems.

use super::{Load, Part, SYSTEMS, Study};
use crate::figure::{Axis, Colour, Curve, Panel, Plot, Point, Topic};
use crate::study::Spread;

/// The film's rate, frames per second.
const FRAMES_S: f64 = 25.0;
/// The least skew that is drawn, us. Smaller skews are drawn as this, because the axis is logarithmic.
const LEAST_US: f64 = 1.0;

/// One of the paper's figures.
struct Figure {
    load: &'static str,
    number: &'static str,
    caption: &'static str,
    aim_us: f64,
}

const FIGURES: [Figure; 3] = [
    Figure { load: "user", number: "2", caption: "skew with user-level CPU load", aim_us: 250.0 },
    Figure { load: "kernel", number: "3", caption: "skew with kernel CPU load", aim_us: 400.0 },
    Figure { load: "file-system", number: "4", caption: "skew with file-system load", aim_us: 500.0 },
];

/// The figures with a film that was measured.
pub fn all(study: &Study) -> Vec<Topic> {
    FIGURES.iter().map(|figure| topic(study, figure)).filter(|topic| !topic.panels.is_empty()).collect()
}

/// Whether a topic has panels of a figure.
pub fn is_drawn(topic: &Topic, number: &str) -> bool {
    topic.panels.iter().any(|panel| panel.figure == number)
}

/// The number and the caption of each figure that the study can make.
pub fn captions() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIGURES.iter().map(|figure| (figure.number, figure.caption))
}

/// The figure beside a load; `None` if there is none.
pub fn beside<'a>(topics: &'a [Topic], load: &Load) -> Option<&'a Topic> {
    let figure = FIGURES.iter().find(|figure| figure.load == load.key && load.part == Part::Skew)?;
    topics.iter().find(|topic| is_drawn(topic, figure.number))
}

fn topic(study: &Study, figure: &Figure) -> Topic {
    let films = SYSTEMS.iter().filter(|system| system.part == Part::Skew);
    let films: Vec<_> =
        films.filter_map(|system| Some((system.key, study.film(system.key, figure.load)?))).collect();
    let size = |skew_us: &f64| skew_us.abs().max(LEAST_US);
    let sizes = films.iter().flat_map(|(_, film)| film.skews_us.iter().map(size));
    let seconds = films.iter().map(|(_, film)| film.skews_us.len() as f64 / FRAMES_S).fold(0.0, f64::max);
    let panels = films.iter().map(|(system, film)| {
        let point = |(nth, skew_us): (usize, &f64)| {
            let skew_us = size(skew_us);
            let y = Spread { median: skew_us, low: skew_us, high: skew_us };
            Point { x: nth as f64 / FRAMES_S, y }
        };
        let points = film.skews_us.iter().enumerate().map(point).collect();
        let curve = Curve { name: "|skew|", colour: Colour::MPlayer, points };
        let drawn = Plot::Curves(vec![curve]);
        Panel { figure: figure.number, scheduler: (*system).to_owned(), drawn }
    });
    Topic {
        title: figure.caption,
        figures: vec![(figure.number, figure.caption)],
        note: "The size of the skew of each frame, seed 1; below 1 us it is drawn as 1 us.".to_owned(),
        x: Axis::linear("time of the film, s", seconds, ""),
        y: Axis::logarithmic("skew, us", sizes.chain([LEAST_US, figure.aim_us]), |tick| format!("{tick}")),
        lines: vec![(figure.aim_us, "the paper's TSL at worst")],
        panels: panels.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;
    use crate::draw;

    #[test]
    fn each_system_has_a_panel_with_every_frame() {
        let topics = all(&study());
        assert_eq!(topics.iter().map(|topic| topic.panels.len()).collect::<Vec<_>>(), [3, 2]);
        let Plot::Curves(curves) = &topics[0].panels[0].drawn else { panic!("no curves") };
        assert_eq!((curves[0].points.len(), curves[0].points[2].y.median), (4, 35_000.0));
        let svg = draw::file(&topics[0], "2");
        assert!(svg.contains("2: fifo-both") && svg.contains("TSL at worst"), "{svg}");
    }
}
