//! Which licences may share a binary: what is under GPL-2.0-only and what is under Apache-2.0 alone may not.

use std::process::Command;

/// What a binary of a crate is made of: name and licence of each crate, as cargo knows them.
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
fn the_scheduler_s_daemon_holds_nothing_that_is_under_apache_alone() {
    assert!(!are_under("spry-scheduler", "GPL-2.0-only").is_empty(), "the test sees no licences");
    // bindgen's, which scx_utils lists among what it runs with, though it only builds with it: no code of it is in the binary.
    let is_known = |name: &String| name.starts_with("clang-sys ");
    let found: Vec<String> =
        are_under("spry-scheduler", "Apache-2.0").into_iter().filter(|name| !is_known(name)).collect();
    assert_eq!(found, [""; 0]);
}

#[test]
fn nothing_else_holds_what_is_under_the_gpl_alone() {
    assert!(!are_under("spry-cli", "Apache-2.0").is_empty(), "the test sees no licences");
    for package in
        ["spry-cli", "spry-lab", "spry-workload", "spry-display", "spry-control", "spry-policy", "spry-load"]
    {
        assert_eq!(are_under(package, "GPL-2.0-only"), [""; 0], "{package}");
    }
}
