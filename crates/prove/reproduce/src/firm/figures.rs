//! Figures 6 to 8: what timers cost the ray tracer with each system.

use super::{CASES, Case, NONE, SYSTEMS, Study};
use crate::figure::{Axis, Bar, Colour, Panel, Part, Plot, Topic};
use crate::study::Spread;

/// The figures with cells that were measured.
pub fn all(study: &Study) -> Vec<Topic> {
    CASES.iter().filter_map(|case| topic(study, case)).collect()
}

/// The number and the caption of each figure that the study can make.
pub fn captions() -> impl Iterator<Item = (&'static str, &'static str)> {
    CASES.iter().filter_map(|case| Some((case.figure?, caption(case))))
}

fn caption(case: &Case) -> &'static str {
    match case.figure {
        Some("6") => "cost of 20 timer processes of 10 ms",
        Some("7") => "cost of 50 timer processes of 10 ms",
        Some(_) => "cost of 20 timer processes of 1 ms",
        None => "no timers",
    }
}

fn topic(study: &Study, case: &Case) -> Option<Topic> {
    let (figure, caption) = (case.figure?, caption(case));
    let bars = SYSTEMS.iter().filter_map(|system| {
        // Timers at ticks are compared with the ray tracer alone on the same system.
        let alone = if system.key == "ticks" { "ticks" } else { "hard" };
        let Spread { median, low, high } = study.longer_percent((system.key, case.key), (alone, NONE))?;
        let [median, low, high] = [median, low, high].map(|percent| percent.max(0.0));
        let value = Spread { median, low, high };
        let colour = if system.key.starts_with("firm") { Colour::Quake } else { Colour::Others };
        Some(Bar { name: system.key, parts: vec![Part { name: system.key, colour, value }] })
    });
    let bars: Vec<Bar> = bars.collect();
    let high = bars.iter().map(|bar| bar.parts[0].value.median).fold(1.0, f64::max);
    (!bars.is_empty()).then(|| Topic {
        title: caption,
        figures: vec![(figure, caption)],
        note: "How much longer the ray tracer takes than without timer processes, in percent. The paper's \
               figures 6 and 7 show the difference to timers at ticks, figure 8 the gain over hard timers: \
               see the table."
            .to_owned(),
        x: Axis::linear("povray takes longer than alone, %", high, " %"),
        y: Axis::linear("", 1.0, ""),
        lines: Vec::new(),
        panels: vec![Panel { figure, scheduler: "the lab".to_owned(), drawn: Plot::Bars(bars) }],
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;
    use crate::draw;

    #[test]
    fn each_figure_has_a_bar_for_each_system_measured() {
        let topics = all(&study());
        assert_eq!(topics.iter().map(|topic| topic.figures[0].0).collect::<Vec<_>>(), ["6", "8"]);
        let Plot::Bars(bars) = &topics[0].panels[0].drawn else { panic!("no bars") };
        assert_eq!(
            bars.iter().map(|bar| bar.name).collect::<Vec<_>>(),
            ["ticks", "hard", "firm-500", "soft"]
        );
        assert!((bars[1].parts[0].value.median - 1.6).abs() < 0.01, "{bars:?}");
        assert!(draw::file(&topics[1], "8").contains("firm-0"));
        assert_eq!(captions().count(), 3);
    }
}
