//! The output of the results: a table, or JSON.

use std::time::Duration;

use serde_json::json;

use crate::Variant;
use crate::load::{Outcome, PERIOD_NS, TIMERS};
use crate::micro::Operation;

/// The form in which results are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
}

/// A line of the table: medians of the rounds.
pub struct Row {
    name: &'static str,
    setting_us: u64,
    cpu_percent: f64,
    /// The 50th, 90th and 99th percentile, and the greatest, in us.
    quantiles_us: [f64; 4],
    expected: u64,
    lost: u64,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn quantiles_us(outcome: &Outcome) -> [f64; 4] {
    let mut late_ns = outcome.late_ns.clone();
    late_ns.sort_unstable();
    let at = |share: f64| {
        let last = late_ns.len().saturating_sub(1);
        late_ns.get((last as f64 * share) as usize).map_or(f64::NAN, |&ns| f64::from(ns) / 1000.0)
    };
    [at(0.5), at(0.9), at(0.99), at(1.0)]
}

impl Row {
    pub fn new(variant: &Variant, outcomes: &[Outcome]) -> Row {
        let quantiles: Vec<[f64; 4]> = outcomes.iter().map(quantiles_us).collect();
        let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
        let expected = sum(|it| it.expected);
        Row {
            name: variant.name,
            setting_us: variant.setting_us,
            cpu_percent: median(outcomes.iter().map(|it| it.cpu_percent).collect()),
            quantiles_us: [0, 1, 2, 3].map(|at| median(quantiles.iter().map(|it| it[at]).collect())),
            expected,
            lost: expected.saturating_sub(sum(|it| it.late_ns.len() as u64)),
        }
    }
}

pub fn print(form: Form, rounds: usize, time: Duration, rows: &[Row], operations: &[Operation]) {
    match form {
        Form::Text => print_text(rows, operations),
        Form::Json => print_json(rounds, time, rows, operations),
    }
}

fn print_text(rows: &[Row], operations: &[Operation]) {
    let deadlines = TIMERS * 1_000_000_000 / PERIOD_NS;
    println!("{deadlines} deadlines a second; CPU is for timers, in percent of one; lateness in us\n");
    println!(
        "{:<34}{:>6}{:>8}{:>9}{:>9}{:>9}{:>10}{:>9}",
        "", "us", "CPU %", "50 %", "90 %", "99 %", "greatest", "lost"
    );
    for row in rows {
        let [median, ninety, most, greatest] = row.quantiles_us;
        println!(
            "{:<34}{:>6}{:>8.1}{median:>9.1}{ninety:>9.1}{most:>9.1}{greatest:>10.1}{:>9}",
            row.name, row.setting_us, row.cpu_percent, row.lost
        );
    }
    println!();
    for operation in operations {
        println!("{:<66}{:>9.1} ns", operation.name, operation.ns);
    }
}

fn print_json(rounds: usize, time: Duration, rows: &[Row], operations: &[Operation]) {
    let row = |row: &Row| {
        let [p50_us, p90_us, p99_us, greatest_us] = row.quantiles_us;
        json!({
            "name": row.name, "setting_us": row.setting_us, "cpu_percent": row.cpu_percent, "p50_us": p50_us,
            "p90_us": p90_us, "p99_us": p99_us, "greatest_us": greatest_us, "expected": row.expected,
            "lost": row.lost,
        })
    };
    let operation = |it: &Operation| json!({ "name": it.name, "ns": it.ns });
    let all = json!({
        "timers": TIMERS, "period_ns": PERIOD_NS, "rounds": rounds, "seconds": time.as_secs_f64(),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "operations": operations.iter().map(operation).collect::<Vec<_>>(),
    });
    println!("{all:#}");
}
