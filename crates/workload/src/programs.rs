//! Where programs are.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The program of this name in the first directory of a search path (as `PATH`) that has it, or the file where the name is a path.
#[must_use]
pub fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|program| program.is_file());
    }
    std::env::split_paths(path)
        .map(|directory: PathBuf| directory.join(Path::new(program)))
        .find(|place| place.is_file())
}
