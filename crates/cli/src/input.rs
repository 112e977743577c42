//! Files that are read: a file, a pipe, or standard input under the name `-`.

use std::env;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::io::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};

/// Whether a path means standard input.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file that can be read from any place. Another file, such as a pipe, is first copied to its end
/// into a file without a name in the directory for temporary files.
///
/// # Errors
/// If there is no such file, or there is no room for a copy.
pub fn open(path: &Path) -> io::Result<File> {
    let file = if is_standard(path) {
        File::from(io::stdin().as_fd().try_clone_to_owned()?)
    } else {
        File::open(path)?
    };
    seekable(file)
}

fn seekable(mut file: File) -> io::Result<File> {
    // Reading a directory fails with a message of its own.
    if file.stream_position().is_ok() || file.metadata()?.is_dir() {
        return Ok(file);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file, &mut copy).map_err(|error| {
        let directory = env::temp_dir();
        let text =
            format!("cannot copy it to {} (TMPDIR names another directory): {error}", directory.display());
        io::Error::new(error.kind(), text)
    })?;
    copy.rewind()?;
    Ok(copy)
}

/// Reads all of standard input as a text.
pub fn text() -> Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text)
}

/// A path that may be opened any number of times, and the name that messages give it.
pub struct NamedPath {
    /// The name that messages show.
    pub name: String,
    /// The path to open the file at.
    pub path: PathBuf,
    /// Keeps the copy of standard input.
    kept: Option<File>,
}

impl NamedPath {
    /// An error of reading the file, under the file's own name: the path of a copy is of no use.
    pub fn told(&self, error: impl Into<Error>) -> Error {
        let error = error.into();
        if self.kept.is_some() { error.context(self.name.clone()) } else { error }
    }

    /// The file or directory at a path; a copy of standard input for `-`.
    pub fn new(path: &Path) -> Result<NamedPath> {
        let name = path.display().to_string();
        if !is_standard(path) {
            return Ok(NamedPath { name, path: path.to_owned(), kept: None });
        }
        let file = open(path).context("cannot read standard input")?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        Ok(NamedPath { name: "standard input".to_owned(), path, kept: Some(file) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_pipe_becomes_a_file_that_can_be_read_twice() {
        let (reader, mut writer) = io::pipe().unwrap();
        let written = std::thread::spawn(move || writer.write_all(&[7; 200_000]));
        let mut file = seekable(File::from(std::os::fd::OwnedFd::from(reader))).unwrap();
        written.join().unwrap().unwrap();
        for _ in 0..2 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, [7; 200_000]);
            file.rewind().unwrap();
        }
    }
}
