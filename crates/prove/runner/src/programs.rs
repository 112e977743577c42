//! Finds the files of programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Finds a program in the directories of a search path in the format of `PATH`, and returns the first file of
/// that name. If the name is itself a path, the program is that file.
#[must_use]
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|program| program.is_file());
    }
    std::env::split_paths(path)
        .map(|directory: PathBuf| directory.join(Path::new(program)))
        .find(|place| place.is_file())
}
