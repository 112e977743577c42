//! The scenarios that come with Spry are valid, and have the variables that their documentation names.

use std::fs;
use std::path::{Path, PathBuf};

use spry_scenario::model::Scenario;

fn scenarios() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let entries = fs::read_dir(dir).expect("there are scenarios");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    found.sort();
    found
}

fn load(path: &Path) -> Scenario {
    let text = fs::read_to_string(path).expect("a scenario can be read");
    Scenario::parse(&text, &path.display().to_string()).unwrap_or_else(|mistake| panic!("{mistake}"))
}

#[test]
fn every_shipped_scenario_is_right() {
    let found = scenarios();
    assert!(found.len() >= 9, "only {} scenarios", found.len());
    for path in found {
        let scenario = load(&path);
        assert_eq!(Some(scenario.name.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(!scenario.about.is_empty(), "{}: nothing about it", path.display());
    }
}

#[test]
fn the_variable_stressers_adds_as_many_tasks() {
    for path in scenarios() {
        let scenario = load(&path);
        if !scenario.variables.iter().any(|variable| variable.name == "stressers") {
            continue;
        }
        let count = |stressers: &str| {
            let set = [("stressers".to_owned(), stressers.to_owned())];
            let scenario = scenario.with(&set).unwrap_or_else(|mistake| panic!("{mistake}"));
            scenario.tasks.iter().map(|task| task.count).sum::<u32>()
        };
        assert_eq!(count("8"), count("0") + 8, "{}", path.display());
    }
}

#[test]
fn the_promised_scenarios_have_their_variables() {
    for (name, variables) in [
        ("movie", &["stressers", "fps"][..]),
        ("typing", &["stressers"]),
        ("game", &["stressers"]),
        ("alarms", &["stressers", "kind", "n"]),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../scenarios/{name}.toml"));
        let scenario = load(&path);
        for wanted in variables {
            assert!(
                scenario.variables.iter().any(|variable| variable.name == *wanted),
                "{name}: no {wanted}"
            );
        }
    }
}
