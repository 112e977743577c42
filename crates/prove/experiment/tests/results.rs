//! Tests of tables, pages, directories and comparisons, with handmade results.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Map, Value, json};
use spry_experiment::compare::{Change, CompareError, Comparison, Verdict, judge};
use spry_experiment::directory::{self, Circumstances, Destination, KeepError, PartialDirectory};
use spry_experiment::metric::Metric;
use spry_experiment::model::{Failure, Inputs, MeasuredCell, Results, Sample, digest_of};
use spry_experiment::{Experiment, Plan, Recording, Source, html, table};

/// A scenario that can be varied in the same way as a film.
const SCENARIO: &str = r#"
    name = "movie"
    [variables]
    stressers = { default = 0 }
    [[task]]
    name = "stresser"
    kind = "stresser"
    count = "$stressers"
"#;

/// Compares a text with a golden file of this crate.
fn assert_golden(name: &str, text: &str) {
    spry_test_run::assert_golden(env!("CARGO_MANIFEST_DIR"), name, text);
}

/// Results of a movie beside 0, 2 and 8 stressers under two schedulers. A greater `luck` makes the
/// values greater.
fn movie(machine: &str, seeds: u64, luck: i64) -> Results {
    let plan = Plan {
        schedulers: ["eevdf", "scx_bpfland:-s 5000"].map(|text| text.parse().unwrap()).to_vec(),
        vary: vec!["stressers=0,2,8".parse().unwrap()],
        seeds,
    };
    let source = Source { name: "movie.toml".to_owned(), text: SCENARIO.to_owned() };
    let cells: Vec<MeasuredCell> = Experiment::new(source, plan, Recording::Never)
        .unwrap()
        .cells()
        .iter()
        .map(|cell| {
            let stressers: i64 = cell.sets[0].1.parse().unwrap();
            let jitter = cell.seed as i64 * i64::from(stressers > 0);
            let shown = 250 / (1 + stressers) + jitter + luck;
            let p99 = 57_000 + stressers * 400_000 + jitter * 1000;
            let metrics = json!({
                "frames_shown": shown,
                "frames_due": 250,
                "wake_lateness_ns": { "p50": 57_000, "p99": p99, "max": p99 * 2 },
            });
            let Value::Object(metrics) = metrics else { unreachable!() };
            MeasuredCell::new(cell, metrics)
        })
        .collect();
    let parts = BTreeMap::from([("record".to_owned(), json!(false)), ("kernel".to_owned(), json!("aa"))]);
    Results {
        scenario: "movie".to_owned(),
        machine: machine.to_owned(),
        kernel: "7.3.4-cloud-amd64".to_owned(),
        digest: digest_of(&cells),
        measure: Vec::new(),
        inputs: Inputs::new(parts),
        cells,
        failures: Vec::new(),
    }
}

fn recorded(mut results: Results) -> Results {
    results.inputs.parts.insert("record".to_owned(), json!(true));
    results
}

#[test]
fn the_tables_of_several_seeds_and_of_one_are_stable() {
    assert_golden("movie.3-seeds.txt", &table::text(&movie("lab", 3, 0)));
    assert_golden("movie.1-seed.txt", &table::text(&movie("lab", 1, 0)));
}

#[test]
fn a_failed_cell_is_told_and_leaves_a_gap_in_the_table() {
    let mut results = movie("lab", 1, 0);
    let cell = results.cells.remove(5);
    let error = "the kernel ejected the scheduler scx_bpfland: runnable task stall".to_owned();
    let MeasuredCell { scheduler, vary, seed, .. } = cell;
    results.failures.push(Failure { scheduler, vary, seed, error });
    let text = table::text(&results);
    assert_golden("movie.failed.txt", &text);
    assert!(html::page(&results, &[]).contains("runnable task stall"));
}

#[test]
fn json_has_the_keys_of_the_contract_and_no_others() {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let json = serde_json::to_value(movie("lab", 1, 0)).unwrap();
    assert_eq!(keys(&json), ["cells", "digest", "inputs", "kernel", "machine", "scenario"]);
    assert_eq!(keys(&json["cells"][0]), ["digest", "metrics", "scheduler", "seed", "vary"]);
    assert_eq!(json["cells"][0]["vary"]["stressers"], json!(0));
    let back: Results = serde_json::from_value(json).unwrap();
    assert_eq!(back, movie("lab", 1, 0));
}

#[test]
fn the_page_needs_nothing_from_outside_and_draws_every_cell() {
    let results = movie("lab", 3, 0);
    let page = html::page(&results, &["spry".to_owned(), "run".to_owned()]);
    for outside in ["http://", "https://", "<script", "<link", "<img", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // Four metrics have panels, with a dot for each cell. The number of frames due stands in a heading.
    assert_eq!(page.matches("<circle ").count(), 4 * results.cells.len());
    assert!(page.contains("frames shown of 250"));
    let picture = html::picture(&results).unwrap();
    assert_eq!(picture.matches("<circle ").count(), results.cells.len());
    assert_golden("movie.picture.svg", &picture);
}

#[test]
fn a_name_cannot_break_out_of_the_page() {
    let mut results = movie("lab", 1, 0);
    let evil = "<script>alert('x')</script>\"&";
    for cell in &mut results.cells {
        cell.scheduler = evil.to_owned();
        cell.vary = Map::from_iter([(evil.to_owned(), json!(evil))]);
        cell.metrics = Map::from_iter([(evil.to_owned(), json!(1))]);
    }
    let page = html::page(&results, &[evil.to_owned()]);
    assert!(!page.contains("<script>"), "{page}");
}

fn circumstances() -> Circumstances {
    Circumstances {
        file_name: "scenario.toml",
        scenario: "name = \"movie\"\n".to_owned(),
        command: vec!["spry".to_owned()],
        notes: json!({}),
    }
}

#[test]
fn a_directory_of_results_reads_back_and_is_replaceable() {
    let home = tempfile::tempdir().unwrap();
    let results = movie("lab", 2, 0);
    for _ in 0..2 {
        let partial = PartialDirectory::begin(Destination::Below(home.path().join("results"))).unwrap();
        fs::write(partial.subdirectory("traces").unwrap().join("a.spry"), "x").unwrap();
        let place = partial.finish(&results, &circumstances()).unwrap();
        assert_eq!(place, home.path().join("results").join(format!("movie-lab-{}", &results.digest[..8])));
        assert_eq!(directory::read(&place).unwrap(), results);
        assert_eq!(directory::read(&place.join("results.json")).unwrap(), results);
        for file in ["index.html", "picture.svg", "table.txt", "scenario.toml", "made.json", "traces/a.spry"]
        {
            assert!(place.join(file).is_file(), "{file}");
        }
    }
    assert_eq!(fs::read_dir(home.path().join("results")).unwrap().count(), 1);
}

#[test]
fn an_unfinished_directory_is_removed_and_foreign_files_stay() {
    let home = tempfile::tempdir().unwrap();
    let partial = PartialDirectory::begin(Destination::Exactly(home.path().join("mine"))).unwrap();
    partial.write("a", b"x").unwrap();
    drop(partial);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    fs::write(home.path().join("letter"), "x").unwrap();
    let taken = PartialDirectory::begin(Destination::Exactly(home.path().to_owned())).unwrap_err();
    assert!(matches!(taken, KeepError::Taken(_)), "{taken}");
    assert!(home.path().join("letter").is_file());
}

#[test]
fn a_file_that_is_no_results_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("results.json"), "{}").unwrap();
    let error = directory::read(home.path()).unwrap_err().to_string();
    assert!(error.contains("results.json: these are no results of spry run"), "{error}");
}

fn sample(values: &[f64]) -> Sample {
    Sample::new(values.to_vec()).unwrap()
}

#[test]
fn a_difference_counts_from_where_seeds_end() {
    let verdict = |first: &[f64], second: &[f64]| {
        judge(&Metric::new("response_ns.p99"), &sample(first), &sample(second))
    };
    assert_eq!(verdict(&[10.0, 12.0, 14.0], &[12.0, 14.0, 18.0]), Verdict::Within);
    assert_eq!(verdict(&[10.0, 12.0, 14.0], &[15.0, 16.0, 17.0]), Verdict::Within);
    assert_eq!(verdict(&[10.0, 12.0, 14.0], &[16.0, 17.0, 18.0]), Verdict::Beyond(Change::Worse));
    assert_eq!(verdict(&[16.0, 17.0, 18.0], &[10.0, 12.0, 14.0]), Verdict::Beyond(Change::Better));
    assert_eq!(verdict(&[10.0], &[99.0]), Verdict::Unknown);
    assert_eq!(verdict(&[10.0], &[10.0]), Verdict::Equal);
    let frames = Metric::new("frames_shown");
    assert_eq!(judge(&frames, &sample(&[1.0, 1.0]), &sample(&[2.0, 2.0])), Verdict::Beyond(Change::Better));
    let other = Metric::new("keys_typed");
    assert_eq!(judge(&other, &sample(&[1.0, 1.0]), &sample(&[2.0, 2.0])), Verdict::Beyond(Change::Other));
}

#[test]
fn a_comparison_on_one_machine_is_stable() {
    let comparison = Comparison::of(&movie("lab", 3, 0), &movie("lab", 3, 4)).unwrap();
    assert_golden("movie.compared.txt", &comparison.text("before", "after"));
    assert_eq!(comparison.worse(), 0);
    assert_eq!(Comparison::of(&movie("lab", 3, 4), &movie("lab", 3, 0)).unwrap().worse(), 6);
}

#[test]
fn recorded_and_unrecorded_results_are_never_mixed() {
    let error = Comparison::of(&movie("lab", 1, 0), &recorded(movie("lab", 1, 0))).unwrap_err();
    assert_eq!(error, CompareError::Recorded);
    assert!(Comparison::of(&recorded(movie("lab", 1, 0)), &recorded(movie("lab", 1, 0))).is_ok());
}

#[test]
fn between_machines_only_shares_are_compared() {
    let comparison = Comparison::of(&movie("host", 3, 0), &movie("lab", 3, 0)).unwrap();
    assert!(!comparison.lines.is_empty());
    assert!(comparison.lines.iter().all(|line| line.metric.name() == "frames_shown"));
    assert!(comparison.lines.iter().all(|line| line.first.max() <= 1.1));
    let mut times = [movie("host", 1, 0), movie("lab", 1, 0)];
    for cell in times.iter_mut().flat_map(|results| &mut results.cells) {
        cell.metrics.retain(|name, _| name == "wake_lateness_ns");
    }
    let error = Comparison::of(&times[0], &times[1]).unwrap_err();
    assert!(error.to_string().contains("only shares and ratios"), "{error}");
}

#[test]
fn a_lab_that_does_not_repeat_is_found_out() {
    let same = Comparison::of(&movie("lab", 1, 0), &movie("lab", 1, 0)).unwrap();
    assert!(same.remarks[0].contains("repeated"), "{:?}", same.remarks);
    let other = Comparison::of(&movie("lab", 1, 0), &movie("lab", 1, 1)).unwrap();
    assert!(other.remarks[0].contains("not repeated"), "{:?}", other.remarks);
}

#[test]
fn different_scenarios_and_cells_are_no_comparison() {
    let mut typing = movie("lab", 1, 0);
    typing.scenario = "typing".to_owned();
    assert!(matches!(Comparison::of(&movie("lab", 1, 0), &typing), Err(CompareError::Scenario(..))));
    let mut elsewhere = movie("lab", 1, 0);
    elsewhere.cells.iter_mut().for_each(|cell| cell.scheduler = "fifo".to_owned());
    assert_eq!(Comparison::of(&movie("lab", 1, 0), &elsewhere), Err(CompareError::Nothing));
}

#[test]
fn measured_metrics_of_a_scenario_come_first_and_are_open() {
    let mut results = movie("lab", 1, 0);
    let heads = |results: &Results| {
        let text = table::text(results);
        let heads = text.lines().filter(|line| line.starts_with("wake") || line.starts_with("frames"));
        heads.map(|line| line.split(" of").next().unwrap_or(line).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(heads(&results)[0], "frames shown");
    results.measure = ["wake_lateness_ns", "frames_shown"].map(str::to_owned).into();
    assert_eq!(heads(&results)[0], "wake lateness, 99 %, ms");
    assert_eq!(heads(&results)[3], "frames shown");
    let page = html::page(&results, &[]);
    let (open, closed) = page.split_once("<details>").unwrap();
    assert!(open.find("wake lateness, 99 %") < open.find("frames shown"), "{open}");
    assert!(!open.contains("wake lateness, longest") && closed.contains("wake lateness, longest"));
    assert!(html::picture(&results).unwrap().contains("wake lateness, 99 %"));
}
