//! Programs in C that tests compile against the libraries of a crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The newest file that cargo has built for a C library, such as `libspry_reserve`, with this ending
/// (`.a` or `.so`).
///
/// # Panics
/// If cargo has built none.
pub fn library(name: &str, ending: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let files = fs::read_dir(own.parent().expect("a directory")).expect("its files").flatten();
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file.starts_with(name) && file.ends_with(ending)
    };
    let age = |path: &PathBuf| {
        fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    files.map(|file| file.path()).filter(is_it).max_by_key(age).expect("cargo builds the library")
}

/// Compiles `examples/NAME.c` of a crate into a directory, with the crate's headers and these additional
/// options, and links it with a library. Every warning is an error.
///
/// # Panics
/// If the compiler is missing or warns.
pub fn compiled(crate_dir: &Path, name: &str, options: &[&str], dir: &Path, library: &Path) -> PathBuf {
    let program = dir.join(name);
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options);
    command.arg("-I").arg(crate_dir.join("include"));
    command.arg(crate_dir.join("examples").join(name).with_extension("c"));
    command.arg("-o").arg(&program).arg(library).args(["-lm", "-lpthread", "-ldl"]);
    let said = command.output().expect("there is a C compiler");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    program
}
