//! The study of clock resolution as JSON.

use serde_json::{Value, json};

use super::{CASES, LEFT_OUT, MACHINE, SYSTEMS, Study, rows, shares, throughputs, upgrade};
use crate::boots::Shortfall;

/// The whole study, without its inputs.
pub fn report(study: &Study, undone: &Shortfall) -> Value {
    let systems = SYSTEMS.iter().map(|system| {
        json!({
            "system": system.key,
            "kernel": system.kernel,
            "tick_ns": system.tick_ns,
            "quantum_ms": system.quantum_ms,
            "about": system.about,
        })
    });
    let cases = CASES.iter().map(|case| json!({ "case": case.key(), "name": case.name(), "is": case }));
    let mut cells: Vec<_> = study.cells.iter().collect();
    cells.sort_by_key(|cell| (&cell.system, &cell.case, cell.seed));
    let mut sorts: Vec<_> = study.sorts.iter().collect();
    sorts.sort_by_key(|cell| (&cell.system, &cell.generation, cell.seed));
    let bars = throughputs(study);
    json!({
        "reproduce": "clock-resolution",
        "machine": "lab",
        "published_machine": MACHINE,
        "systems": systems.collect::<Vec<_>>(),
        "cases": cases.collect::<Vec<_>>(),
        "table6": rows(study),
        "figure7": shares(study),
        "figure8": { "sorted_per_second": bars, "newer_over_older": upgrade(&bars) },
        "left_out": LEFT_OUT,
        "cells": cells,
        "sorts": sorts,
        "failures": undone.failures,
        "missing": undone.missing,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn programs_find_rows_verdicts_and_cells() {
        let value = report(&study(), &Shortfall::default());
        let row = value["table6"].as_array().and_then(|rows| rows.iter().find(|row| row["system"] == "fast"));
        let row = row.expect("there is one");
        assert_eq!((&row["case"], &row["published"]["p90"]), (&json!("blk-8"), &json!(7.0)));
        assert_eq!((&row["measured"][0]["median"], &row["verdict"]), (&json!(53.0), &json!("as_then")));
        assert_eq!((&value["figure7"][0]["n"], &value["figure7"][0]["published"]), (&json!(8), &json!(0.16)));
        let figure8 = &value["figure8"];
        assert_eq!(figure8["sorted_per_second"][3]["measured"]["median"], json!(7_000_000.0));
        assert_eq!(figure8["newer_over_older"]["verdict"], json!("as_then"));
        assert_eq!(value["cells"].as_array().map(Vec::len), Some(study().cells.len()));
    }
}
