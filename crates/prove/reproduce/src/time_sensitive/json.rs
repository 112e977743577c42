//! The study of Time-Sensitive Linux as JSON.

use serde_json::{Value, json};

use super::published::LEFT_OUT;
use super::{LOADS, SYSTEMS, Study, findings, rows};
use crate::boots::Shortfall;

/// The whole study, without its inputs.
pub fn report(study: &Study, undone: &Shortfall) -> Value {
    let systems = SYSTEMS.iter().map(|system| {
        json!({
            "system": system.key,
            "part": system.part,
            "kernel": system.kernel,
            "preempt": system.preempt,
            "about": system.about,
        })
    });
    let loads = LOADS.iter().map(|load| json!({ "load": load.key, "part": load.part, "about": load.about }));
    let mut cells: Vec<_> = study.cells.iter().collect();
    cells.sort_by_key(|cell| (&cell.system, &cell.load, cell.seed));
    json!({
        "reproduce": "time-sensitive",
        "machine": "lab",
        "systems": systems.collect::<Vec<_>>(),
        "loads": loads.collect::<Vec<_>>(),
        "rows": rows(study),
        "findings": findings(study),
        "left_out": LEFT_OUT,
        "cells": cells,
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
        let row = &value["rows"][0];
        assert_eq!((&row["published"][0][1], &row["verdict"]), (&json!(5.0), &json!("reached")));
        assert_eq!(row["systems"][0], json!(["deadline", { "median": 6.5, "low": 6.0, "high": 7.0 }]));
        assert_eq!(value["findings"][0]["outcome"], "as_then");
        assert_eq!(value["cells"].as_array().map(Vec::len), Some(study().cells.len()));
    }
}
