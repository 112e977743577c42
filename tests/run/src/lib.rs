//! Where tests find the programs that they start.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of Spry's programs, which are as new as the test that asks: that of `SPRY_PROGRAMS`, or where cargo
/// builds them now. Examples of the crates are in `examples` below it.
///
/// # Panics
/// Where they cannot be built.
pub fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| env::var_os("SPRY_PROGRAMS").map_or_else(built, PathBuf::from))
}

/// Builds them beside this test. All of the workspace at once, as `./x test` does: what is built for some crates alone
/// has other features, and would be built again.
fn built() -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down");
    // Without optimisation nothing is fast enough to be measured.
    let profile = if test.starts_with(target.join("release")) { "release" } else { "checked" };
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--workspace", "--bins", "--examples", "--profile", profile, "--target-dir"]);
    let output = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(profile)
}
