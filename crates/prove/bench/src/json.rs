//! A report as the JSON that `spry bench --json` prints.

use serde_json::{Value, json};

use crate::papers::papers;
use crate::report::{Figure, Rate, Report, Sort};
use crate::stats::Stats;

/// The whole report as JSON. A value that was not measured is `null`; the report's `lacks` has the reason.
pub fn report(report: &Report) -> Value {
    let time = |figure: Option<&Figure>| figure.map(|figure| time(report, figure));
    let caches = report.cache.iter().map(|cache| {
        let mut value = figure(&cache.figure, "mb_s");
        value["level"] = json!(cache.level);
        value["cache_bytes"] = json!(cache.cache_bytes);
        value["block_bytes"] = json!(cache.block_bytes);
        value
    });
    let interrupt = report.interrupt.as_ref().map(|interrupt| {
        let mut value = self::time(report, &interrupt.figure);
        value["tick_hz"] = json!(interrupt.tick_hz);
        value
    });
    json!({
        "switch": time(report.switch.as_ref()),
        "trap": time(report.trap.as_ref()),
        "cache": caches.collect::<Vec<_>>(),
        "interrupt": interrupt,
        "sort": report.sort.as_ref().map(|sort| sorting(report, sort)),
        "papers": papers(),
        "processor": report.machine.processor,
        "kernel": report.machine.kernel,
        "cpu": report.cpu,
        "cycles_per_ns": report.machine.cycles_per_ns,
        "governor": report.machine.governor,
        "priority": report.priority,
        "stolen_percent": report.noise.stolen_percent,
        "warnings": report.warnings(),
        "lacks": report.lacks.iter().map(|lack| json!({"name": lack.benchmark.name(), "reason": lack.reason})).collect::<Vec<_>>(),
        "elapsed_s": report.elapsed_ns as f64 / 1e9,
        "interrupted": report.interrupted,
    })
}

fn stats(stats: &Stats, unit: &str) -> Value {
    let figures = [
        ("mean", Some(stats.mean)),
        ("sd", stats.sd),
        ("min", Some(stats.min)),
        ("median", Some(stats.median)),
        ("max", Some(stats.max)),
    ];
    let mut value = json!({"samples": stats.count});
    for (name, figure) in figures {
        value[format!("{name}_{unit}")] = json!(figure);
    }
    value
}

fn figure(figure: &Figure, unit: &str) -> Value {
    let mut value = stats(&figure.stats, unit);
    value["set_aside"] = json!(figure.set_aside);
    value
}

fn time(report: &Report, of: &Figure) -> Value {
    let mut value = figure(of, "ns");
    let rate = report.machine.cycles_per_ns;
    value["mean_cycles"] = json!(rate.map(|rate| of.stats.mean * rate));
    value["sd_cycles"] = json!(rate.zip(of.stats.sd).map(|(rate, sd)| sd * rate));
    value
}

fn sorting(report: &Report, sort: &Sort) -> Value {
    json!({
        "array_bytes": sort.array_bytes,
        "expiry": time(report, &sort.expiry),
        "rates": sort.rates.iter().map(|rate| of_rate(sort, rate)).collect::<Vec<_>>(),
        "left_out_hz": sort.left_out_hz,
    })
}

fn of_rate(sort: &Sort, rate: &Rate) -> Value {
    let mut value = figure(&rate.figure, "ns");
    let share = sort.share(rate);
    let share = share.as_ref();
    value["rate_hz"] = json!(rate.rate_hz);
    value["interrupts"] = json!(share.map(|share| share.interrupts));
    value["added_ns"] = json!(share.map(|share| share.added_ns));
    value["added_margin_ns"] = json!(share.and_then(|share| share.margin_ns));
    value["direct_ns"] = json!(share.map(|share| share.direct_ns));
    let indirect = share.and_then(|share| share.indirect_percent());
    value["indirect_percent"] = json!(indirect.map(|(percent, _)| percent));
    value["indirect_margin_percent"] = json!(indirect.map(|(_, margin)| margin));
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report as measured;

    #[test]
    fn the_names_are_those_that_programs_were_promised() {
        let value = report(&measured());
        for name in ["switch", "trap", "interrupt"] {
            for figure in [
                "mean_ns",
                "sd_ns",
                "min_ns",
                "median_ns",
                "max_ns",
                "mean_cycles",
                "sd_cycles",
                "samples",
                "set_aside",
            ] {
                assert!(value[name][figure].is_number(), "{name} {figure}: {value}");
            }
        }
        assert_eq!(
            (&value["cache"][0]["level"], &value["cache"][0]["mean_mb_s"]),
            (&json!(1), &json!(2512.0))
        );
        let rates = &value["sort"]["rates"];
        assert_eq!((&rates[0]["rate_hz"], &rates[0]["added_ns"]), (&json!(0), &Value::Null));
        assert_eq!(rates[2]["indirect_percent"].as_f64().map(f64::round), Some(91.0));
        assert_eq!(value["papers"]["processor"].as_array().map(Vec::len), Some(7));
    }

    #[test]
    fn an_unmeasured_value_is_null() {
        let mut results = measured();
        (results.trap, results.sort, results.machine.cycles_per_ns) = (None, None, None);
        let value = report(&results);
        assert!(value["trap"].is_null() && value["sort"].is_null(), "{value}");
        assert!(
            value["switch"]["mean_cycles"].is_null() && value["switch"]["mean_ns"].is_number(),
            "{value}"
        );
    }
}
