//! Finds Spry's own programs.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// The directory of this program. For a test program it is the directory above.
///
/// # Errors
/// If the system does not report the path of this program.
pub fn directory() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    let is_test = directory.file_name().is_some_and(|name| name == "deps");
    Ok(if is_test { directory.parent().unwrap_or(directory) } else { directory }.to_owned())
}

/// One of Spry's programs: it is beside this program, or in a directory of `PATH`. `None` if
/// it is in neither.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = directory().ok().into_iter().chain(env::split_paths(&path));
    places.map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// The error that a program is in none of the places of Spry's programs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is neither beside spry nor on the path: build the whole workspace (`cargo build --release`)")]
pub struct MissingProgram(
    /// The program's name.
    pub String,
);

/// The path of one of Spry's programs, as [`find`] returns it.
///
/// # Errors
/// If the program is in none of the places.
pub fn own(name: &str) -> Result<PathBuf, MissingProgram> {
    find(name).ok_or_else(|| MissingProgram(name.to_owned()))
}
