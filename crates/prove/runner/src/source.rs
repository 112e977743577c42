//! Finds the C files of source packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use spry_scenario::kinds::{SOURCES_DIRECTORY, SOURCES_VARIABLE};

use crate::RunError;

/// The unpacked source of a package, and its C files.
#[derive(Debug)]
pub(crate) struct Source {
    root: PathBuf,
    files: Vec<String>,
}

impl Source {
    /// The source of a package, with the C files in the directory `under` and in all directories below it.
    ///
    /// # Errors
    /// If the source does not exist, or has no C file.
    pub(crate) fn find(name: &str, under: &str) -> Result<Self, RunError> {
        let sources = std::env::var_os(SOURCES_VARIABLE).filter(|value| !value.is_empty());
        Self::of(&sources.map_or_else(|| PathBuf::from(SOURCES_DIRECTORY), PathBuf::from), name, under)
    }

    fn of(sources: &Path, name: &str, under: &str) -> Result<Self, RunError> {
        let root = sources.join(name);
        if !root.is_dir() {
            let sources = sources.display();
            return Err(RunError::Machine(format!(
                "the source of {name} is not in {sources}: `spry run` fetches it, or {SOURCES_VARIABLE} names \
                 a directory that has it"
            )));
        }
        let mut files = Vec::new();
        let place = root.join(under);
        c_files(&place, Path::new(under), &mut files)
            .map_err(|error| RunError::Failed(format!("{}: {error}", place.display())))?;
        files.sort();
        if files.is_empty() {
            return Err(RunError::Failed(format!("{} has no C file", place.display())));
        }
        Ok(Self { root, files })
    }

    /// The directory of the source, in which the compiler runs.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The C files, sorted by their paths, which begin in the source's directory.
    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }
}

/// Adds the C files of a directory and of the directories below it. `path` is the directory's
/// path in the source.
fn c_files(directory: &Path, path: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            c_files(&entry.path(), &path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "c") {
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_files_of_all_directories_are_found_in_order_of_path() {
        let sources = spry_scratch::Scratch::make(None).expect("a directory");
        let root = sources.path().join("pack");
        for place in ["src/b", "src/a", "doc"] {
            fs::create_dir_all(root.join(place)).expect("it can be made");
        }
        for file in ["src/b/one.c", "src/a/two.c", "src/three.c", "src/a/four.h", "doc/five.c"] {
            fs::write(root.join(file), "").expect("it can be written");
        }
        let found = Source::of(sources.path(), "pack", "src").expect("it is there");
        assert_eq!(found.files(), ["src/a/two.c", "src/b/one.c", "src/three.c"]);
        assert_eq!(found.root(), root);
    }

    #[test]
    fn a_source_that_is_missing_or_empty_is_told() {
        let sources = spry_scratch::Scratch::make(None).expect("a directory");
        let missing = Source::of(sources.path(), "pack", "src").expect_err("it is not there").to_string();
        assert!(missing.contains("the source of pack is not in"), "{missing}");
        fs::create_dir_all(sources.path().join("pack/src")).expect("it can be made");
        let empty = Source::of(sources.path(), "pack", "src").expect_err("it has no file").to_string();
        assert!(empty.contains("has no C file"), "{empty}");
    }
}
