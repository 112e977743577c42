//! The directory of a reproduced study: its files, and the cells that can be used again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::error::Error;

/// The file that names the subcommand of `spry reproduce` that made this directory.
const MARK: &str = "made.json";

/// The directory of a reproduced study.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
}

/// A cell's values, and the hash of everything on which they depend.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptCell<C> {
    pub inputs: String,
    pub cell: C,
}

impl Directory {
    /// Makes the directory, or opens a directory that an earlier run made. `what` is the name of the study.
    ///
    /// # Errors
    /// If the path holds other files, or the directory cannot be written to.
    pub fn open(path: &Path, what: &str) -> Result<Directory, Error> {
        let directory = Directory { path: path.to_owned() };
        let is_empty = match fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(Error::File { path: path.to_owned(), error }),
        };
        let mark = json!({ "reproduce": what });
        if !is_empty {
            let found = fs::read_to_string(path.join(MARK)).ok();
            let found = found.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
            if found.is_none_or(|found| found["reproduce"] != mark["reproduce"]) {
                return Err(Error::Taken { path: path.to_owned(), what: what.to_owned() });
            }
        }
        directory.subdirectory("cells")?;
        directory.put(MARK, &format!("{mark:#}\n"))?;
        Ok(directory)
    }

    /// A subdirectory of this directory, which is made if it does not exist.
    pub(crate) fn subdirectory(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|error| Error::File { path: path.clone(), error })?;
        Ok(path)
    }

    /// Removes a subdirectory of this directory if it is empty.
    pub(crate) fn remove_empty(&self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        match fs::remove_dir(&path) {
            Err(error)
                if error.kind() != io::ErrorKind::NotFound
                    && error.kind() != io::ErrorKind::DirectoryNotEmpty =>
            {
                Err(Error::File { path, error })
            }
            _ => Ok(()),
        }
    }

    /// The values of a cell that was measured earlier; `None` if an input on which they depend has changed.
    pub(crate) fn kept<C: DeserializeOwned>(&self, name: &str, inputs: &str) -> Option<C> {
        let text = fs::read_to_string(self.path.join(format!("cells/{name}.json"))).ok()?;
        let kept: KeptCell<C> = serde_json::from_str(&text).ok()?;
        (kept.inputs == inputs).then_some(kept.cell)
    }

    /// Keeps the values of a cell in the directory.
    pub(crate) fn keep<C: Serialize>(&self, name: &str, kept: &KeptCell<C>) -> Result<(), Error> {
        self.put(&format!("cells/{name}.json"), &serde_json::to_string(kept)?)
    }

    /// Writes a file of this directory. The file is written completely or not at all.
    pub(crate) fn put(&self, name: &str, content: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        let half = self.path.join(format!("{name}.part"));
        let written = fs::write(&half, content).and_then(|()| fs::rename(&half, &path));
        written.map_err(|error| Error::Write { path, error })
    }
}
