//! Tests `spry bench` in the lab, where an instruction takes a nanosecond and there are no caches.

use serde_json::Value;
use spry_lab::MachineSpec;
use spry_lab_tests::{machine, printed, run, spry_script};

#[test]
fn without_caches_interrupts_cost_a_sort_only_their_own_time() {
    let job = spry_script("spry bench --quiet --json --only trap,interrupt,sort --duration 8");
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let report: Value = serde_json::from_str(&printed(&outcome)).expect("--json prints JSON");
    let rates = report["sort"]["rates"].as_array().unwrap_or_else(|| panic!("{report}"));
    let fast: Vec<&Value> = rates.iter().filter(|rate| rate["rate_hz"].as_u64() >= Some(5_000)).collect();
    assert!(fast.len() >= 3, "{report}");
    for rate in fast {
        let [added_ns, indirect] = ["added_ns", "indirect_percent"].map(|name| rate[name].as_f64());
        assert!(added_ns.is_some_and(|ns| ns > 50_000.0), "{rate}");
        assert!(indirect.is_some_and(|percent| percent.abs() < 2.0), "{rate}");
    }
    let trap_ns = report["trap"]["median_ns"].as_f64();
    assert!(trap_ns.is_some_and(|ns| (100.0..1_000.0).contains(&ns)), "{report}");
}
