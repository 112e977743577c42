//! Finds the compiler of BPF programs, for build scripts: distributions install it under a name
//! with its version.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
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

/// Makes a program that compiles as this clang does, for the package of a build script. It writes the same
/// object in each build folder: without paths, and without an order of types that depends on their lengths.
/// Then a guest of the lab that loads the object does not depend on the folder, either.
///
/// # Panics
/// Outside a build script, where cargo does not set the paths; if the program cannot be written.
pub fn anywhere(clang: &str) -> PathBuf {
    let path =
        |variable: &str| PathBuf::from(env::var_os(variable).expect("cargo sets it for build scripts"));
    let package = path("CARGO_MANIFEST_DIR");
    let tree = package.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).unwrap_or(&package);
    let within = package.strip_prefix(tree).expect("the package lies in the tree");
    let text = include_str!("anywhere.sh")
        .replace("@CLANG@", clang)
        .replace("@TREE@", &tree.display().to_string())
        .replace("@PACKAGE@", &within.display().to_string());
    let program = path("OUT_DIR").join("clang");
    fs::write(&program, text).expect("OUT_DIR can be written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("the program is ours");
    program
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
