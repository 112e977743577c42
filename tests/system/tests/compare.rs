//! `spry compare` with latencies that were measured on this kernel, and with files that cannot be compared.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use spry_system_tests::{need_root, run, spry, spry_says};

fn measure(file: &Path, args: &[&str]) {
    let mut command = Command::new(spry());
    command.args(["latency", "--quiet", "--samples", "3000", "--cpus", "0", "-o"]).arg(file);
    run(command.args(args));
}

fn compare(files: &[&Path], args: &[&str]) -> Output {
    let mut command = Command::new(spry());
    command.arg("compare").args(files).args(args).output().expect("spry starts")
}

#[test]
fn runs_of_one_setup_are_pooled_and_other_setups_stay_apart() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let files: Vec<_> = ["a", "b", "c"].map(|name| dir.path().join(format!("{name}.latency.json"))).into();
    measure(&files[0], &[]);
    measure(&files[1], &[]);
    measure(&files[2], &["--source", "timerfd"]);
    let paths: Vec<&Path> = files.iter().map(|file| file.as_path()).collect();
    let page = dir.path().join("page.html");
    let output = compare(&paths, &["--pool", "--json", "--html", page.to_str().expect("a plain name")]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("--json prints JSON");
    let results = report["results"].as_array().expect("a list");
    let told: Vec<_> =
        results.iter().map(|result| (result["name"].as_str(), result["samples"].as_u64())).collect();
    assert_eq!(told, [(Some("nanosleep"), Some(6_000)), (Some("timerfd"), Some(3_000))]);
    assert_eq!(results[0]["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(report["differences"].as_array().map(Vec::len), Some(4));
    let page = fs::read_to_string(page).expect("the page was written");
    assert_eq!(page.matches("<path class=\"curve").count(), 4);
    let each = spry_says(["compare".as_ref(), files[0].as_os_str(), files[1].as_os_str()]);
    assert!(each.contains("a: Kernel") && each.contains("< 0.1 ms") && each.contains("99.999 %"), "{each}");
}

#[test]
fn a_measurement_equals_itself_and_kinds_are_not_mixed() {
    need_root();
    let dir = tempfile::tempdir().expect("scratch space");
    let file = dir.path().join("a.latency.json");
    measure(&file, &[]);
    let same = compare(&[&file, &file], &["--fail-if-worse", "--json"]);
    let report: Value = serde_json::from_slice(&same.stdout).expect("--json prints JSON");
    assert_eq!(same.status.code(), Some(0));
    let differences = report["differences"].as_array().expect("a list");
    assert!(!differences.is_empty(), "{report}");
    assert!(differences.iter().all(|difference| difference["second_is"] == "noise"), "{report}");
    let other = dir.path().join("results.json");
    fs::write(&other, "{}").expect("it can be written");
    let mixed = compare(&[&file, &other], &[]);
    let said = String::from_utf8_lossy(&mixed.stderr).into_owned();
    assert_eq!((mixed.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("one kind at a time"), "{said}");
}
