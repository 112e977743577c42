//! The study of firm timers as JSON.

use serde_json::{Value, json};

use super::published::LEFT_OUT;
use super::{CASES, SYSTEMS, Study, costs, rows};
use crate::boots::Shortfall;

/// The whole study, without its inputs.
pub fn report(study: &Study, undone: &Shortfall) -> Value {
    let systems = SYSTEMS
        .iter()
        .map(|system| json!({ "system": system.key, "expiry": system.expiry, "about": system.about }));
    let mut cells: Vec<_> = study.cells.iter().collect();
    cells.sort_by_key(|cell| (&cell.system, &cell.case, cell.seed));
    json!({
        "reproduce": "time-sensitive-firm",
        "machine": "lab",
        "systems": systems.collect::<Vec<_>>(),
        "cases": CASES,
        "rows": rows(study),
        "costs": costs(study),
        "break_even": costs(study).and_then(|costs| costs.break_even()),
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
    fn programs_find_rows_costs_and_cells() {
        let value = report(&study(), &Shortfall::default());
        assert_eq!(value["cells"].as_array().map(Vec::len), Some(study().cells.len()));
        assert!(value["costs"]["hard_us"].as_f64().is_some_and(|us| (us - 8.0).abs() < 0.1), "{value}");
        assert!(
            value["rows"].as_array().is_some_and(|rows| rows.iter().any(|row| row["verdict"] == "as_then"))
        );
        let empty = report(&Study::default(), &Shortfall::default());
        assert!(empty["costs"].is_null() && empty["break_even"].is_null());
    }
}
