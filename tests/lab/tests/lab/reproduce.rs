//! Tests one of the thesis' applications in the lab, from the run to the figures.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use spry_lab_tests::programs;

/// The output of `spry reproduce interactive --json` for the game's demonstration mode, which
/// needs no player.
fn quake(directory: &Path) -> Value {
    let mut command = Command::new(programs().join("spry"));
    command.args(["reproduce", "interactive", "--only", "quake-demo", "--scheduler", "eevdf", "--json"]);
    let output = command.arg("-o").arg(directory).output().expect("spry starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn a_game_without_a_player_takes_the_cpu_and_is_not_run_twice() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let first = quake(directory.path());
    let cells = first["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 1, "{first}");
    let measured = &cells[0]["measurement"];
    assert_eq!((&measured["lost_events"], &measured["window_ns"]), (&0.into(), &10_000_000_000_u64.into()));
    let cpu_percent = measured["application"]["cpu_percent"].as_f64().expect("CPU time");
    assert!((95.0..=100.0).contains(&cpu_percent), "{measured}");
    for figure in ["6.1", "6.2", "6.8"] {
        assert!(directory.path().join(format!("figure-{figure}.svg")).is_file(), "no figure {figure}");
    }
    assert!(!directory.path().join("traces").exists(), "its trace has served");
    let began = Instant::now();
    let again = quake(directory.path());
    assert_eq!(again["digest"], first["digest"]);
    assert!(began.elapsed().as_secs() < 10, "its figures were there");
}
