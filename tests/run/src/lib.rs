//! Parts that tests of several crates need: the programs that they start, programs in C, golden files, a
//! daemon that ends after an answer, and whether long forms are to run.

pub mod c;
mod daemon;
mod golden;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub use daemon::answer_once;
pub use golden::assert_golden;

/// The directory of Spry's programs, which are built from the same sources as the calling test. It is the
/// directory that `SPRY_PROGRAMS` names, or the directory into which cargo builds them now. Examples of the
/// crates are in `examples` below the directory.
///
/// # Panics
/// If the programs cannot be built.
pub fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| env::var_os("SPRY_PROGRAMS").map_or_else(built, PathBuf::from))
}

/// Whether the long forms of tests are to run. `./x test --all` requests them by `SPRY_TEST_LONG`.
pub fn is_long() -> bool {
    env::var_os("SPRY_TEST_LONG").is_some()
}

/// Builds the programs beside this test. The whole workspace is built at once, as `./x test` does: a crate
/// that is built alone has other features, and would be built again.
fn built() -> PathBuf {
    let test = env::current_exe().expect("this program has a path");
    let target = test.ancestors().nth(3).expect("cargo keeps tests three levels down");
    // Without optimisation the programs are too slow to be measured.
    let profile = if test.starts_with(target.join("release")) { "release" } else { "checked" };
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--workspace", "--bins", "--examples", "--profile", profile, "--target-dir"]);
    let output = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.unwrap_or_else(|error| panic!("cargo: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join(profile)
}
