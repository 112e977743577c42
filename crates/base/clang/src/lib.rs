//! Finds the compiler of BPF programs, for build scripts: distributions install it under a name with its
//! version.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest version of clang that can compile the BPF programs.
const OLDEST: u32 = 16;
/// A version above this is found only under the name without a version.
const NEWEST: u32 = 30;

/// The clang that an environment variable names; else `clang`, if it is new enough; else the newest one under
/// a name with a version.
///
/// # Panics
/// If there is no clang: a build script can do nothing else.
pub fn find(variable: &str) -> String {
    println!("cargo::rerun-if-env-changed={variable}");
    if let Ok(clang) = env::var(variable) {
        return clang;
    }
    let is_new = |name: &String| version_of(name).is_some_and(|version| version >= OLDEST);
    named("clang").find(is_new).unwrap_or_else(|| {
        panic!("no clang {OLDEST} or newer (Debian: apt install clang-19; {variable} names another)")
    })
}

/// The options by which clang writes no path of the building machine into an object: the tree, the build
/// script's output, and cargo's home have fixed names instead. An object then does not depend on the folder
/// of the build, and neither does a guest of the lab that loads it.
///
/// # Panics
/// Outside a build script, where cargo does not say these paths.
pub fn prefix_maps() -> Vec<String> {
    let path =
        |variable: &str| PathBuf::from(env::var_os(variable).expect("cargo sets it for build scripts"));
    let package = path("CARGO_MANIFEST_DIR");
    let tree = package.ancestors().find(|folder| folder.join("Cargo.lock").is_file());
    let map = |from: &Path, to: &str| format!("-ffile-prefix-map={}={to}", from.display());
    // The output may lie in the tree: of two options that match, clang obeys the last.
    let maps = [
        Some(map(tree.unwrap_or(&package), "/spry")),
        env::var_os("CARGO_HOME").map(|home| map(Path::new(&home), "/cargo")),
        Some(map(&path("OUT_DIR"), "/out")),
        env::var_os("DEP_BPF_INCLUDE").map(|headers| map(Path::new(&headers), "/libbpf")),
    ];
    maps.into_iter().flatten().collect()
}

/// The names of an LLVM tool: the plain name, then the names with a version, from the newest version on.
pub fn named(tool: &str) -> impl Iterator<Item = String> + '_ {
    let versions = (OLDEST..=NEWEST).rev().map(move |version| format!("{tool}-{version}"));
    std::iter::once(tool.to_owned()).chain(versions)
}

fn version_of(clang: &str) -> Option<u32> {
    let text = String::from_utf8(Command::new(clang).arg("--version").output().ok()?.stdout).ok()?;
    text.split("version ").nth(1)?.split('.').next()?.parse().ok()
}
