//! Which licences a dependency may have, and which dependencies may be in one binary: code under GPL-2.0-only
//! and code under Apache-2.0 alone may not.

use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use spry_tidy::metadata;

/// The licences that any dependency may have: only permissive ones, since all of Spry but `scheduler` is
/// under MIT OR Apache-2.0.
const ALLOWED: [&str; 10] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "0BSD",
    "CC0-1.0",
];

/// The licences that these crates may have in addition. The scheduler's daemon is a binary of its own, and
/// only this binary contains these crates.
const EXCEPTIONS: [(&str, &str); 4] = [
    ("spry-scheduler", "GPL-2.0-only"),
    ("scx_cargo", "GPL-2.0-only"),
    ("scx_stats", "GPL-2.0-only"),
    ("scx_utils", "GPL-2.0-only"),
];

/// The name and the licence of every package that is used with any feature on any platform, to run, to
/// build or to test.
fn packages() -> Vec<(String, Option<String>)> {
    let metadata = metadata(&["--all-features"]);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    packages.iter().map(|it| (text(&it["name"]).expect("it has a name"), text(&it["license"]))).collect()
}

/// Why a package may not be used; `None` if it may.
fn objection(name: &str, licence: Option<&str>) -> Option<String> {
    let Some(licence) = licence else { return Some(format!("{name} does not say what it is under")) };
    // The parser is lax: "MIT/Apache-2.0" is how the choice between two licences was once written.
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    let exceptions = EXCEPTIONS.iter().filter(|(package, _)| *package == name).map(|(_, licence)| licence);
    let allowed: Vec<Licensee> = ALLOWED
        .iter()
        .chain(exceptions)
        .map(|licence| Licensee::parse(licence).expect("it is a licence's name"))
        .collect();
    let may = expression.evaluate(|asked| allowed.iter().any(|licence| licence.satisfies(asked)));
    (!may).then(|| format!("{name} is under {licence}"))
}

#[test]
fn every_dependency_is_under_a_permissive_licence() {
    let packages = packages();
    assert!(packages.len() > 100, "the test sees {} packages", packages.len());
    let found: Vec<String> =
        packages.iter().filter_map(|(name, licence)| objection(name, licence.as_deref())).collect();
    assert_eq!(found, [""; 0]);
    // Each exception must still be needed: else it would let in a package without a check of its licence.
    for (exception, licence) in EXCEPTIONS {
        let needs = |(name, theirs): &(String, Option<String>)| {
            name == exception && theirs.as_deref() == Some(licence)
        };
        assert!(packages.iter().any(needs), "{exception} is not under {licence}");
    }
}

#[test]
fn a_forbidden_licence_is_found() {
    for licence in [
        "MIT",
        "GPL-3.0-only OR MIT",
        "MIT/Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "(MIT OR X11) AND Zlib",
    ] {
        assert_eq!(objection("any", Some(licence)), None);
    }
    for licence in [
        "GPL-2.0-only",
        "LGPL-2.1-or-later",
        "MIT AND GPL-2.0-only",
        "MPL-2.0",
        "Apache-2.0 AND (X11 OR NCSA)",
        "mine",
    ] {
        assert!(objection("any", Some(licence)).is_some(), "{licence}");
    }
    assert!(objection("any", None).is_some());
    assert_eq!(objection("scx_utils", Some("GPL-2.0-only")), None);
    assert!(objection("scx_utils", Some("GPL-3.0-only")).is_some());
}

/// The name and the licence of each crate that a crate's binary contains, as cargo reports them.
fn parts(package: &str) -> Vec<(String, String)> {
    let arguments = ["tree", "--offline", "--locked", "-e", "normal", "--prefix", "none", "-f", "{p}\t{l}"];
    let output = Command::new(env!("CARGO")).args(arguments).args(["-p", package]).output();
    let output = output.expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let part = |line: &str| {
        let (name, licence) = line.trim_end_matches(" (*)").split_once('\t')?;
        Some((name.to_owned(), licence.trim().to_owned()))
    };
    text.lines().filter_map(part).collect()
}

fn are_under(package: &str, licence: &str) -> Vec<String> {
    parts(package).into_iter().filter(|(_, theirs)| theirs == licence).map(|(name, _)| name).collect()
}

#[test]
fn the_daemon_contains_no_crate_under_apache_alone() {
    assert!(!are_under("spry-scheduler", "GPL-2.0-only").is_empty(), "the test sees no licences");
    // This crate belongs to bindgen. The crate scx_utils lists bindgen as a normal dependency, although it
    // only builds with it: none of its code is in the binary.
    let is_known = |name: &String| name.starts_with("clang-sys ");
    let found: Vec<String> =
        are_under("spry-scheduler", "Apache-2.0").into_iter().filter(|name| !is_known(name)).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn no_other_package_contains_gpl_only_code() {
    assert!(!are_under("spry-cli", "Apache-2.0").is_empty(), "the test sees no licences");
    for package in
        ["spry-cli", "spry-lab", "spry-runner", "spry-display", "spry-control", "spry-policy", "spry-load"]
    {
        assert_eq!(are_under(package, "GPL-2.0-only"), [""; 0], "{package}");
    }
}
