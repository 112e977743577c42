//! The facts that follow from a metric's name: its unit, the better direction, and its place in a table.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::model::Sample;

/// The unit of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of things, or a number without a unit.
    Count,
    /// A share of a whole, from 0 to 1.
    Share,
    /// A number of things a second.
    PerSecond,
    /// A time in nanoseconds.
    Ns,
}

/// The direction in which a metric is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither direction is better; the metric only describes.
    Neither,
}

/// A metric's full name, such as `wake_lateness_ns.p99`, or `movie.frames_shown` if two tasks have
/// the same metric.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Metric(String);

/// The order of the tables: a person notices the first metrics first.
const ORDER: [&str; 8] = [
    "frames_shown",
    "response_ns",
    "frames_per_second",
    "latency_ns",
    "cpu_share",
    "gap_ns_max",
    "wake_lateness_ns",
    "frames_due",
];
/// The metrics that are better if they are lower.
const LOWER: [&str; 6] =
    ["response_ns", "latency_ns", "gap_ns_max", "wake_lateness_ns", "favoured_after_ns", "operation_ns"];
/// The order of a metric's statistics. A person notices the rare long wait, so the high quantiles come
/// before the median.
const STATISTICS: [&str; 8] = ["sum", "p99", "p95", "p90", "max", "p50", "mean", "min"];

impl Metric {
    /// Makes the metric with this name.
    pub fn new(name: impl Into<String>) -> Metric {
        Metric(name.into())
    }

    /// The metric's full name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether a name in a scenario's `measure` means this metric: `response_ns` means
    /// `typist.response_ns.p99`, for example.
    pub fn is_of(&self, name: &str) -> bool {
        format!(".{}.", self.0).contains(&format!(".{name}."))
    }

    /// Whether this metric and the other one are statistics of the same values.
    pub fn is_sibling(&self, other: &Metric) -> bool {
        let values = |metric: &Metric| {
            let (values, statistic) = metric.0.rsplit_once('.')?;
            STATISTICS.contains(&statistic).then(|| values.to_owned())
        };
        values(self).is_some_and(|own| values(other) == Some(own))
    }

    /// The unit in which the metric is measured.
    pub fn unit(&self) -> Unit {
        let is = |end: &str| self.0.split('.').any(|part| part.ends_with(end));
        if is("_ns") || is("_ns_max") {
            Unit::Ns
        } else if is("_share") {
            Unit::Share
        } else if is("_per_second") {
            Unit::PerSecond
        } else {
            Unit::Count
        }
    }

    /// The direction in which the metric is better.
    pub fn better(&self) -> Better {
        let is = |part: &str| self.0.split('.').any(|found| found == part);
        if ["frames_shown", "frames_per_second", "cpu_share", "work_ns"].into_iter().any(is) {
            Better::Higher
        } else if LOWER.into_iter().any(is) {
            Better::Lower
        } else {
            Better::Neither
        }
    }

    /// The metric of which this one is a part, such as frames due for frames shown; `None` if it is no part.
    pub fn whole(&self) -> Option<Metric> {
        self.0.ends_with("frames_shown").then(|| Metric(self.0.replace("frames_shown", "frames_due")))
    }

    /// Whether the metric is shown only as the whole of another metric.
    pub fn is_whole(&self) -> bool {
        self.0.ends_with("frames_due")
    }

    /// The key by which metrics are sorted. Known metrics come first, in the order of `ORDER`. The statistics
    /// of one metric follow in the order of `STATISTICS`.
    pub fn rank(&self) -> (usize, usize, &str) {
        let place = |order: &[&str]| {
            let found = order.iter().position(|part| self.0.split('.').any(|own| own == *part));
            found.unwrap_or(order.len())
        };
        (place(&ORDER), place(&STATISTICS), &self.0)
    }

    /// Whether scenarios are usually run for this metric. The other metrics explain it.
    pub fn is_main(&self) -> bool {
        let is = |part: &str| self.0.split('.').any(|found| found == part);
        is("frames_shown")
            || is("frames_per_second")
            || (is("p99") && (is("response_ns") || is("latency_ns")))
    }

    /// The metric's name in words: `frames shown`, `response, 99 %`.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        for part in self.0.split('.') {
            let part = part.strip_suffix("_ns").unwrap_or(part);
            words.push(match part.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok()) {
                Some(percent) => format!("{percent} %"),
                None if part == "max" && self.better() != Better::Higher => "longest".to_owned(),
                None if part == "min" => "least".to_owned(),
                None if part == "max" => "most".to_owned(),
                None => part.replace("_ns_max", ", longest").replace('_', " "),
            });
        }
        words.join(", ")
    }
}

/// The numbers of all metrics by their full names. A metric that is null was not measured and is omitted.
pub fn flatten(metrics: &Map<String, Value>) -> BTreeMap<Metric, f64> {
    let mut flat = BTreeMap::new();
    for (key, value) in metrics {
        collect(key.clone(), value, &mut flat);
    }
    flat
}

fn collect(name: String, value: &Value, flat: &mut BTreeMap<Metric, f64>) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                flat.insert(Metric(name), number);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                collect(format!("{name}.{key}"), value, flat);
            }
        }
        // Lists are details that only the JSON shows. Texts and null are not numbers.
        _ => {}
    }
}

/// How the values of one metric are written: all with the same unit and the same number of digits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Format {
    divisor: f64,
    digits: Digits,
    unit: &'static str,
}

/// The number of digits after the decimal point.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Digits {
    /// No digit. A median between two counts is written with its half, such as 3.5.
    Whole,
    /// One digit after the point.
    One,
    /// As many as the value needs to have about three significant digits.
    Three,
}

impl Format {
    /// The format for values up to `largest`.
    pub fn of(metric: &Metric, largest: f64) -> Format {
        match metric.unit() {
            Unit::Share => Format { divisor: 0.01, digits: Digits::One, unit: "%" },
            Unit::PerSecond => Format { divisor: 1.0, digits: Digits::Three, unit: "" },
            Unit::Count => Format { divisor: 1.0, digits: Digits::Whole, unit: "" },
            Unit::Ns if largest >= 1e9 => Format { divisor: 1e9, digits: Digits::Three, unit: "s" },
            Unit::Ns if largest >= 1e6 => Format { divisor: 1e6, digits: Digits::Three, unit: "ms" },
            Unit::Ns if largest >= 1e3 => Format { divisor: 1e3, digits: Digits::Three, unit: "us" },
            Unit::Ns => Format { divisor: 1.0, digits: Digits::Whole, unit: "ns" },
        }
    }

    /// The unit; may be empty.
    pub fn unit(self) -> &'static str {
        self.unit
    }

    /// A value without its unit.
    pub fn figure(self, value: f64) -> String {
        let scaled = value / self.divisor;
        let decimals = match self.digits {
            Digits::Whole => usize::from(scaled.fract() != 0.0),
            Digits::One => 1,
            Digits::Three => match scaled.abs() {
                0.0 => 0,
                size if size < 0.1 => 3,
                size if size < 10.0 => 2,
                size if size < 100.0 => 1,
                _ => 0,
            },
        };
        format!("{scaled:.decimals$}")
    }

    /// The median over the seeds, and the smallest and largest value in brackets where they differ.
    pub fn with_spread(self, sample: &Sample) -> String {
        let median = self.figure(sample.median());
        if sample.range() > 0.0 {
            return format!("{median} ({}..{})", self.figure(sample.min()), self.figure(sample.max()));
        }
        median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str) -> Metric {
        Metric::new(name)
    }

    #[test]
    fn nested_metrics_get_full_names_and_null_is_left_out() {
        let json = r#"{"frames_shown":3,"wake_lateness_ns":{"p50":1.5,"p99":null},"list":[1]}"#;
        let flat = flatten(&serde_json::from_str(json).unwrap());
        let names: Vec<_> = flat.iter().map(|(metric, value)| (metric.name(), *value)).collect();
        assert_eq!(names, [("frames_shown", 3.0), ("wake_lateness_ns.p50", 1.5)]);
    }

    #[test]
    fn names_tell_units_and_directions() {
        assert_eq!(metric("gap_ns_max").unit(), Unit::Ns);
        assert_eq!(metric("typist.response_ns.p99").unit(), Unit::Ns);
        assert_eq!(metric("cpu_share").unit(), Unit::Share);
        assert_eq!(metric("movie.frames_shown").better(), Better::Higher);
        for name in ["latency_ns.max", "operation_ns.p50", "favoured_after_ns"] {
            assert_eq!(metric(name).better(), Better::Lower, "{name}");
        }
        assert_eq!(metric("frames_due").better(), Better::Neither);
        assert_eq!(metric("movie.frames_shown").whole(), Some(metric("movie.frames_due")));
    }

    #[test]
    fn the_telling_metric_comes_first() {
        let mut metrics = [
            "wake_lateness_ns.max",
            "wake_lateness_ns.p50",
            "zeal",
            "frames_due",
            "frames_shown",
            "wake_lateness_ns.p99",
        ]
        .map(metric);
        metrics.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let names: Vec<&str> = metrics.iter().map(Metric::name).collect();
        assert_eq!(
            names,
            [
                "frames_shown",
                "wake_lateness_ns.p99",
                "wake_lateness_ns.max",
                "wake_lateness_ns.p50",
                "frames_due",
                "zeal"
            ]
        );
    }

    #[test]
    fn figures_of_a_metric_share_a_unit() {
        let format = Format::of(&metric("response_ns.p99"), 17.6e6);
        assert_eq!((format.figure(1_500_000.0).as_str(), format.unit()), ("1.50", "ms"));
        assert_eq!(Format::of(&metric("cpu_share"), 0.5).figure(0.1111), "11.1");
        assert_eq!(Format::of(&metric("frames_shown"), 250.0).figure(98.5), "98.5");
        assert_eq!(metric("response_ns.p99").words(), "response, 99 %");
        assert_eq!(metric("response_ns.max").words(), "response, longest");
        assert_eq!(metric("work_ns.max").words(), "work, most");
        assert_eq!(metric("gap_ns_max").words(), "gap, longest");
    }
}
