//! The directory that holds the results of a run, with everything that is needed to repeat the run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use spry_scratch::Scratch;

use crate::model::Results;
use crate::{html, table};

/// The file of a results directory that `spry compare` reads.
pub const RESULTS_FILE: &str = "results.json";

/// The reason why results cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// A file of the results cannot be written or read.
    #[error("{}: {}", path.display(), full_disk(error))]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// This path holds other files than results.
    #[error("{} is there and holds no results of spry run: name another directory with -o", .0.display())]
    Taken(PathBuf),
    /// A file does not hold results.
    #[error("{}: these are no results of spry run: {error}", path.display())]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The mistake in the file's content.
        error: serde_json::Error,
    },
}

fn full_disk(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::StorageFull {
        return "the disk is full: make room, or name a directory on another one with -o".to_owned();
    }
    error.to_string()
}

/// The data that are kept beside the measured values, for understanding the values and repeating the run.
#[derive(Clone, PartialEq, Debug)]
pub struct Circumstances {
    /// The scenario's file name.
    pub file_name: &'static str,
    /// The scenario's text.
    pub scenario: String,
    /// The command line of the run.
    pub command: Vec<String>,
    /// Versions and settings on which the measured values do not depend.
    pub notes: Value,
}

/// A results directory that is being filled. It is removed unless it is finished, even if this
/// process is killed.
#[derive(Debug)]
pub struct PartialDirectory {
    dir: Scratch,
    destination: Destination,
}

/// The place of the results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// The results are put into this directory.
    Exactly(PathBuf),
    /// The results are put into a directory below this one. Its name is made from the scenario
    /// and the digest.
    Below(PathBuf),
}

impl Destination {
    /// The directory in which the results' directory will be.
    fn parent(&self) -> PathBuf {
        match self {
            Destination::Below(parent) => parent.clone(),
            Destination::Exactly(dir) => match dir.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            },
        }
    }

    fn directory(&self, results: &Results) -> PathBuf {
        match self {
            Destination::Exactly(dir) => dir.clone(),
            Destination::Below(parent) => {
                let digest = results.digest.get(..8).unwrap_or(&results.digest);
                parent.join(format!("{}-{}-{digest}", results.scenario, results.machine))
            }
        }
    }
}

impl PartialDirectory {
    /// Makes a temporary directory beside the place where the results will be.
    ///
    /// # Errors
    /// If that place holds other files than results, or the directory cannot be made there.
    pub fn begin(destination: Destination) -> Result<PartialDirectory, KeepError> {
        if let Destination::Exactly(dir) = &destination {
            free(dir)?;
        }
        let parent = destination.parent();
        fs::create_dir_all(&parent).map_err(|error| KeepError::File { path: parent.clone(), error })?;
        let dir = Scratch::make(Some(&parent)).map_err(|error| KeepError::File { path: parent, error })?;
        Ok(PartialDirectory { dir, destination })
    }

    /// A subdirectory, which is made if it does not exist.
    ///
    /// # Errors
    /// If the subdirectory cannot be made.
    pub fn subdirectory(&self, name: &str) -> Result<PathBuf, KeepError> {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path).map_err(|error| KeepError::File { path: path.clone(), error })?;
        Ok(path)
    }

    /// Writes a file in the directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), KeepError> {
        let path = self.dir.path().join(name);
        fs::write(&path, content).map_err(|error| KeepError::File { path, error })
    }

    /// Writes the results and moves the directory to its place. Earlier results in that place are replaced.
    /// Returns the path of the place.
    ///
    /// # Errors
    /// If a file or directory cannot be written.
    pub fn finish(self, results: &Results, circumstances: &Circumstances) -> Result<PathBuf, KeepError> {
        #[derive(Serialize)]
        struct RunNotes<'a> {
            command: &'a [String],
            notes: &'a Value,
        }
        let made = RunNotes { command: &circumstances.command, notes: &circumstances.notes };
        self.write(RESULTS_FILE, json(results).as_bytes())?;
        self.write("made.json", json(&made).as_bytes())?;
        self.write(circumstances.file_name, circumstances.scenario.as_bytes())?;
        self.write("table.txt", table::text(results).as_bytes())?;
        self.write("index.html", html::page(results, &circumstances.command).as_bytes())?;
        if let Some(picture) = html::picture(results) {
            self.write("picture.svg", picture.as_bytes())?;
        }
        let place = self.destination.directory(results);
        free(&place)?;
        let failed = |error| KeepError::File { path: place.clone(), error };
        if fs::exists(&place).map_err(failed)? {
            fs::remove_dir_all(&place).map_err(failed)?;
        }
        readable(self.dir.path()).map_err(failed)?;
        // After the directory has been moved, nothing is left to remove.
        fs::rename(self.dir.path(), &place).map_err(failed)?;
        Ok(place)
    }
}

fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("these types become JSON");
    text.push('\n');
    text
}

/// Makes a directory as readable as other files of the user. A temporary directory can be entered by
/// its owner only.
fn readable(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
}

/// Fails if a directory holds other files than results.
fn free(dir: &Path) -> Result<(), KeepError> {
    let mut entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(KeepError::File { path: dir.to_owned(), error }),
    };
    if entries.next().is_none() || dir.join(RESULTS_FILE).is_file() {
        return Ok(());
    }
    Err(KeepError::Taken(dir.to_owned()))
}

/// Reads results from their directory, or from their file.
///
/// # Errors
/// If there are no results.
pub fn read(path: &Path) -> Result<Results, KeepError> {
    let path = if path.is_dir() { path.join(RESULTS_FILE) } else { path.to_owned() };
    let text = fs::read_to_string(&path).map_err(|error| KeepError::File { path: path.clone(), error })?;
    serde_json::from_str(&text).map_err(|error| KeepError::Format { path, error })
}
