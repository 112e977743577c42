//! Tests that each part of the tree uses only parts that `ARCHITECTURE.md` allows it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spry_tidy::{code_only, metadata, sources};

/// The wings of the tree, and the other wings that each of them may use.
const WINGS: [(&str, &[&str]); 6] = [
    ("base", &[]),
    ("see", &["base"]),
    ("know", &["base"]),
    ("act", &["base", "know"]),
    ("prove", &["base", "see"]),
    ("cli", &["base", "see", "know", "act", "prove"]),
];
/// The wings that the tests of a wing may use in addition: tests of displays need the X servers that
/// scenarios start.
const IN_TESTS: [(&str, &str); 1] = [("know", "prove")];
/// The crates that load BPF programs, or that check the kernel for features that those programs need.
const LOADERS: [&str; 3] = ["spry-kernel", "spry-recorder", "spry-scheduler"];
/// The crate of experiments, and the crates that play its cells or request them: it uses none of these.
const EXPERIMENT: &str = "spry-experiment";
const PLAYERS: [&str; 5] = ["spry-cli", "spry-host", "spry-lab", "spry-reproduce", "spry-runner"];
/// The sources that only decide or compute: the time and all bytes are given to them as arguments.
const PURE: [&str; 13] = [
    "crates/act/reservations/src/",
    "crates/act/timer/src/checking.rs",
    "crates/act/timer/src/queue.rs",
    "crates/act/timer/src/slots.rs",
    "crates/act/timer/src/terms.rs",
    "crates/act/timer/src/wheel.rs",
    "crates/base/page/src/",
    "crates/base/task/src/",
    "crates/know/policy/src/",
    "crates/prove/scenario/src/",
    "crates/see/timeline/src/",
    "crates/see/analysis/src/",
    "crates/see/trace/src/",
];

/// The code that plays tasks. It depends on no machine, so that each machine can play it.
const TASKS: [&str; 2] = ["crates/prove/runner/src/kinds/", "crates/prove/runner/src/steps/"];

/// A crate in a wing.
struct Crate {
    name: String,
    /// The wing that the crate's manifest names.
    wing: String,
    /// The folder below `crates` that the crate is in.
    folder: String,
    /// The name of each dependency, and whether it is used only in tests.
    uses: Vec<(String, Kind)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Always,
    InTests,
}

/// Reads a package; `None` if the package is not below `crates`, as those of `tests`.
fn read(package: &Value, root: &str) -> Option<Crate> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let path = text(&package["manifest_path"])?;
    let folder = path.strip_prefix(root)?.strip_prefix("/crates/")?.split('/').next()?.to_owned();
    let wing = text(&package["metadata"]["spry"]["wing"]);
    let wing = wing.unwrap_or_else(|| panic!("{path} lacks [package.metadata.spry] wing"));
    let uses = package["dependencies"].as_array()?.iter().filter_map(|used| {
        let kind = if used["kind"] == "dev" { Kind::InTests } else { Kind::Always };
        Some((text(&used["name"])?, kind))
    });
    Some(Crate { name: text(&package["name"])?, wing, folder, uses: uses.collect() })
}

fn crates() -> Vec<Crate> {
    let metadata = metadata(&["--no-deps"]);
    let root = metadata["workspace_root"].as_str().expect("cargo names the root");
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    packages.iter().filter_map(|package| read(package, root)).collect()
}

#[test]
fn each_crate_is_in_the_folder_of_its_wing() {
    for one in crates() {
        assert_eq!(one.wing, one.folder, "{}", one.name);
    }
}

#[test]
fn each_wing_uses_only_those_that_stand_below_it() {
    let crates = crates();
    let wing_of: BTreeMap<&str, &str> =
        crates.iter().map(|one| (one.name.as_str(), one.wing.as_str())).collect();
    assert!(crates.len() > 20, "{} manifests", crates.len());
    for one in &crates {
        let (_, may) = WINGS.iter().find(|(wing, _)| *wing == one.wing).expect("the manifest names a wing");
        for (used, kind) in &one.uses {
            let Some(wing) = wing_of.get(used.as_str()) else { continue };
            let is_for_tests = *kind == Kind::InTests && IN_TESTS.contains(&(&one.wing, wing));
            let is_allowed = *wing == one.wing || may.contains(wing) || is_for_tests;
            assert!(is_allowed, "{} (of {}) uses {used} (of {wing})", one.name, one.wing);
        }
    }
}

#[test]
fn an_experiment_uses_neither_its_players_nor_its_callers() {
    let crates = crates();
    let find = |name: &str| crates.iter().find(|one| one.name == name);
    let mut used = BTreeSet::from([EXPERIMENT]);
    let mut next = vec![find(EXPERIMENT).expect("there is such a crate")];
    while let Some(one) = next.pop() {
        let all = one.uses.iter().filter(|(_, kind)| *kind == Kind::Always || one.name == EXPERIMENT);
        let new: Vec<&Crate> = all.filter_map(|(name, _)| find(name)).collect();
        next.extend(new.into_iter().filter(|one| used.insert(&one.name)));
    }
    assert!(used.len() > 3, "{used:?}");
    let wrong: Vec<&&str> = used.iter().filter(|name| PLAYERS.contains(name)).collect();
    assert!(wrong.is_empty(), "{EXPERIMENT} uses {wrong:?}");
    for machine in ["spry-host", "spry-lab"] {
        let machine = find(machine).expect("there is such a crate");
        assert!(machine.uses.iter().any(|(used, _)| used == EXPERIMENT), "{} plays no cells", machine.name);
    }
}

#[test]
fn only_the_crates_of_the_kernel_know_libbpf() {
    let knows = |one: &&Crate| one.uses.iter().any(|(used, _)| used.starts_with("libbpf"));
    let crates = crates();
    let found: BTreeSet<&str> = crates.iter().filter(knows).map(|one| one.name.as_str()).collect();
    assert_eq!(found, BTreeSet::from(LOADERS));
}

#[test]
fn pure_crates_read_no_clock_and_open_no_file() {
    let impure = [
        "Instant::now",
        "SystemTime::now",
        "std::fs",
        "File::open",
        "std::env",
        "std::process",
        "std::thread",
        "libc::",
    ];
    let count = without(&PURE, &impure);
    assert!(count > 50, "{count} files");
}

#[test]
fn tasks_reach_the_machine_through_their_stage_alone() {
    let direct = [
        "libc::",
        "sys::",
        "Instant::now",
        "SystemTime::now",
        "clock::",
        "std::fs",
        "os::unix::fs",
        "spry_mark",
        "std::thread",
        "std::process",
        "Command::new",
    ];
    let count = without(&TASKS, &direct);
    assert!(count > 15, "{count} files");
}

/// Fails if the code of a source below one of these paths has one of these words. Returns how many
/// sources there are.
fn without(paths: &[&str], words: &[&str]) -> usize {
    let sources = sources();
    let below = sources.iter().filter(|source| paths.iter().any(|path| source.path.starts_with(path)));
    let mut count = 0;
    for source in below.filter(|source| source.has_extension(&["rs"])) {
        count += 1;
        let code = code_only(&source.text);
        let found = words.iter().find(|word| code.contains(**word));
        assert!(found.is_none(), "{}: {found:?}", source.path.display());
    }
    count
}
