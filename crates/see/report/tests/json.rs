//! The JSON report of findings made by hand.

mod common;
#[path = "common/sample.rs"]
mod sample;

use common::assert_golden;
use serde_json::Value;
use spry_analysis::findings::Findings;
use spry_report::json::{self, Json};

fn value(findings: &Findings) -> Value {
    let mut line = Vec::new();
    json::write(findings, &mut line).unwrap();
    assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "one line");
    serde_json::from_slice(&line).unwrap()
}

/// Every value at a path such as `cpus[].irq_ns`.
fn at_path<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    path.split('.').fold(vec![value], |values, step| match step.strip_suffix("[]") {
        Some(step) => values.iter().flat_map(|value| value[step].as_array().into_iter().flatten()).collect(),
        None => values
            .iter()
            .map(|value| value.get(step).unwrap_or_else(|| panic!("{path}: no {step}")))
            .collect(),
    })
}

#[test]
fn json_of_a_trace_with_every_group_is_stable() {
    let pretty = serde_json::to_string_pretty(&Json(&sample::small(sample::all_groups()))).unwrap();
    assert_golden("all.json", &(pretty + "\n"));
}

#[test]
fn json_of_a_trace_with_few_groups_is_stable() {
    let pretty = serde_json::to_string_pretty(&Json(&sample::small(sample::few_groups()))).unwrap();
    assert_golden("few.json", &(pretty + "\n"));
}

#[test]
fn a_missing_figure_is_null_and_named() {
    let report = value(&sample::small(sample::few_groups()));
    let missing = report["missing"].as_object().unwrap();
    assert_eq!(missing["cpus[].irq_ns"], "irq");
    assert_eq!(missing["edges[].bytes"], "ipc");
    for path in missing.keys() {
        let values = at_path(&report, path);
        assert!(!values.is_empty(), "{path} leads nowhere");
        assert!(values.iter().all(|value| value.is_null()), "{path} is said to be missing");
    }
}

#[test]
fn nothing_is_missing_where_every_group_was_recorded() {
    let report = value(&sample::small(sample::all_groups()));
    assert_eq!(report["missing"], serde_json::json!({}));
    let irq_ns = at_path(&report, "cpus[].irq_ns");
    assert!(!irq_ns.is_empty() && irq_ns.iter().all(|value| value.is_u64()), "{irq_ns:?}");
}

#[test]
fn the_contract_has_all_its_fields() {
    let report = value(&sample::small(sample::all_groups()));
    let paths = [
        "trace:events lost bytes duration_ns cpus kernel machine",
        "tasks[]:tid tgid comm start_ns runtime_ns runnable_wait_ns blocked_ns wakeups migrations",
        "tasks[].switches:voluntary involuntary",
        "tasks[].dispatch_latency_ns:count mean p50 p99 p999 max",
        "tasks[].quantum_ns:count mean p50 p90 p99 max per_second",
        "tasks[].billing[]:hz ratio missed_percent ratio_min ratio_max",
        "cpus[]:cpu busy_ns idle_ns irq_ns switches",
        "edges[]:from_tgid to_tgid wakeups bytes",
    ];
    for line in paths {
        let (path, fields) = line.split_once(':').unwrap();
        for field in fields.split(' ') {
            assert!(!at_path(&report, &format!("{path}.{field}")).is_empty(), "{path}.{field}");
        }
    }
}

#[test]
fn empty_findings_are_a_report_too() {
    let report = value(&Findings::default());
    assert_eq!(report["tasks"], serde_json::json!([]));
    assert!(report["edges"].is_null() && report["recorder"].is_null());
}
