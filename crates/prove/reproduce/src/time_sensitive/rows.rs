//! The rows of the study's tables: a quantity beside a load, the paper's values, the values of all
//! systems, and the aim.

use serde::Serialize;

use super::claims::{judged, worst_us};
use super::{
    Aim, CellMeasurement, GivenTime, LOADS, Load, Part, SYSTEMS, Study, THREADS, Thread, Verdict, published,
};
use crate::study::Spread;

/// A row: a quantity beside a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The part of the study.
    pub part: Part,
    /// The load's key.
    pub load: &'static str,
    /// The quantity in words, with its unit.
    pub what: String,
    /// The paper's values, each with its system.
    pub published: Vec<(&'static str, f64)>,
    /// The values of the systems, by their keys.
    pub systems: Vec<(&'static str, Spread)>,
    /// The aim for Spry's value.
    pub aim: Option<Aim>,
    /// Whether Spry's value reaches the aim.
    pub verdict: Option<Verdict>,
}

/// A quantity of a thread of table 1.
struct Quantity {
    words: &'static str,
    of: fn(&GivenTime, &Thread) -> f64,
    published: fn((f64, f64)) -> Option<f64>,
    aim: fn(&Thread, load: &str) -> Option<Aim>,
}

/// Beside a load, Spry's deviation may be this many times the deviation of SCHED_DEADLINE.
const TIMES: Aim = Aim::TimesStock(1.3);

/// The aim for a thread's allocation in a period: off by at most 5 us for the second thread, 10
/// us for the first.
fn allocation(thread: &Thread) -> Aim {
    Aim::AtMost(if thread.name == "one" { 10.0 } else { 5.0 })
}

const QUANTITIES: [Quantity; 5] = [
    Quantity {
        words: "a period begins off by at most, us",
        of: |given, _| given.early_us.max(given.late_us),
        published: |(boundary, _)| Some(boundary),
        aim: |_, load| Some(if load == "none" { Aim::AtMost(5.0) } else { TIMES }),
    },
    Quantity {
        words: "allocation in a period off by at most, us",
        of: |given, _| given.least_us.abs().max(given.most_us.abs()),
        published: |(_, allocation)| Some(allocation),
        aim: |thread, load| Some(if load == "none" { allocation(thread) } else { TIMES }),
    },
    Quantity {
        words: "allocation off by on average, us",
        of: |given, _| given.mean_us,
        published: |_| None,
        aim: |_, _| None,
    },
    Quantity {
        words: "allocation over 100 periods off by at most, %",
        of: |given, _| given.hundred_least_percent.abs().max(given.hundred_most_percent.abs()),
        published: |_| None,
        aim: |_, load| (load == "none").then_some(Aim::AtMost(0.1)),
    },
    Quantity {
        words: "first period above the budget by, us",
        of: |given, thread| given.first_us - thread.budget_us,
        published: |_| None,
        aim: |thread, load| (load == "none").then(|| allocation(thread)),
    },
];

/// The rows of all loads that were measured. The rows of table 1 come first.
pub fn rows(study: &Study) -> Vec<Row> {
    LOADS
        .iter()
        .flat_map(|load| match load.part {
            Part::Table => table(study, load),
            Part::Skew => skew(study, load),
        })
        .filter(|row| !row.systems.is_empty())
        .collect()
}

fn table(study: &Study, load: &'static Load) -> Vec<Row> {
    let mut rows = Vec::new();
    for (nth, thread) in THREADS.iter().enumerate() {
        for quantity in &QUANTITIES {
            let value = |measured: &CellMeasurement| match measured {
                CellMeasurement::Table(threads) => Some((quantity.of)(&threads[nth], thread)),
                CellMeasurement::Skew(_) => None,
            };
            let then = published::deviations(thread.name, load.key).and_then(quantity.published);
            let published = then.map(|value| ("TSL", value)).into_iter().collect();
            let what = format!("{}: {}", thread.words, quantity.words);
            rows.push(row(study, load, what, published, (quantity.aim)(thread, load.key), &value));
        }
    }
    rows
}

fn skew(study: &Study, load: &'static Load) -> Vec<Row> {
    let most_us = |measured: &CellMeasurement| match measured {
        CellMeasurement::Skew(film) => Some(film.most_us()),
        CellMeasurement::Table(_) => None,
    };
    let aim = match load.key {
        "user" => Some(Aim::AtMost(250.0)),
        "kernel" => Some(Aim::AtMost(400.0)),
        "file-system" => Some(Aim::AtMost(500.0)),
        _ => None,
    };
    let published = published::skews(load.key).to_vec();
    vec![
        row(study, load, "skew of a frame at most, us".to_owned(), published, aim, &worst_us),
        row(study, load, "skew of 99 of 100 frames at most, us".to_owned(), Vec::new(), None, &most_us),
    ]
}

fn row(
    study: &Study,
    load: &'static Load,
    what: String,
    published: Vec<(&'static str, f64)>,
    aim: Option<Aim>,
    value: &dyn Fn(&CellMeasurement) -> Option<f64>,
) -> Row {
    let of = |system| study.spread(system, load.key, value);
    let known = SYSTEMS.iter().filter(|system| system.part == load.part);
    let systems = known.filter_map(|system| Some((system.key, of(system.key)?))).collect();
    let (spry, stock) = judged(load.part);
    let verdict = aim.map(|aim| aim.judge(of(spry), of(stock)));
    Row { part: load.part, load: load.key, what, published, systems, aim, verdict }
}
