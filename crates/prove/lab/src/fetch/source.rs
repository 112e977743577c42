//! Fetches source packages of the distribution, and unpacks them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Archive, CONFIGURATION, Suite};
use crate::cache::{digest_of_file, key_of};
use crate::command::run;
use crate::error::{LabError, at};
use crate::progress::{Event, Progress, Stop};

impl Archive {
    /// The directory that holds a source package of a suite in the archive's form: not unpacked and not
    /// patched. The package is fetched once.
    ///
    /// # Errors
    /// If there is no such package, or it cannot be fetched or verified.
    pub fn source_package(
        &self,
        suite: Suite,
        name: &str,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<PathBuf, LabError> {
        let key = key_of([self.uri(), &format!("{suite:?}"), name, CONFIGURATION]);
        self.cache
            .clone()
            .entry("sources", &key, stop, |place| self.fetch_source(suite, name, place, progress, stop))
    }

    /// A directory with the unpacked source of each of these packages of the newest release, in a directory
    /// of the package's name. Each is fetched and unpacked once.
    ///
    /// # Errors
    /// If a package does not exist, or it cannot be fetched, verified or unpacked.
    pub fn source_trees(
        &self,
        names: &BTreeSet<String>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<PathBuf, LabError> {
        let sources = self.sources(names, progress, stop)?;
        let key = key_of(sources.iter().flat_map(|source| [source.name.as_str(), source.digest.as_str()]));
        self.cache.clone().entry("source-trees", &key, stop, |directory| {
            sources.iter().try_for_each(|source| source.unpack_below(directory, stop))
        })
    }

    /// The source packages of the newest release with these names.
    pub(crate) fn sources(
        &self,
        names: &BTreeSet<String>,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Vec<SourcePackage>, LabError> {
        let fetch = |name: &String| {
            let description = description_of(&self.source_package(Suite::Stable, name, progress, stop)?)?;
            let digest = digest_of_file(&description)?;
            Ok(SourcePackage { name: name.clone(), description, digest })
        };
        names.iter().map(fetch).collect()
    }

    /// Fetches a source package. The lists for it are not kept, because they are large and have no other use.
    fn fetch_source(
        &self,
        suite: Suite,
        name: &str,
        place: &Path,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<(), LabError> {
        progress.tell(Event::Step("fetching a source package"));
        if !self.directory.join("codename").exists() {
            self.refresh(progress, stop)?;
        }
        let suite = self.name_of(suite)?;
        let state = place.join("apt");
        for inner in ["lists/partial", "archives/partial"] {
            let path = state.join(inner);
            fs::create_dir_all(&path).map_err(at(&path))?;
        }
        let list = state.join("sources.list");
        fs::write(&list, self.line(&suite, "")?.replacen("deb ", "deb-src ", 1)).map_err(at(&list))?;
        let command = || {
            let mut command = self.apt("apt-get");
            for (name, path) in [
                ("Dir::Etc::sourcelist", &list),
                ("Dir::State::lists", &state.join("lists")),
                ("Dir::Cache", &state),
                ("Dir::Cache::archives", &state.join("archives")),
            ] {
                command.arg("-o").arg(format!("{name}={}", path.display()));
            }
            command
        };
        run(command().args(["-qq", "--error-on=any", "update"]), stop)?;
        run(
            command().current_dir(place).args(["-qq", "--download-only", "--only-source", "source", name]),
            stop,
        )?;
        fs::remove_dir_all(&state).map_err(at(&state))
    }
}

/// A source package that was fetched.
#[derive(Debug)]
pub(crate) struct SourcePackage {
    pub name: String,
    /// The file that lists the package's other files, with their checksums.
    description: PathBuf,
    /// The hash of that file, and so of the whole package.
    pub digest: String,
}

impl SourcePackage {
    /// Unpacks the package into a new directory of its name.
    pub fn unpack_below(&self, directory: &Path, stop: &Stop) -> Result<(), LabError> {
        unpack(&self.description, &directory.join(&self.name), stop)
    }
}

/// Finds the file of a source package that lists the package's other files, with their checksums.
pub(crate) fn description_of(source: &Path) -> Result<PathBuf, LabError> {
    let entries = fs::read_dir(source).map_err(at(source))?.flatten().map(|entry| entry.path());
    let found = entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "dsc"));
    found.ok_or_else(|| LabError::Kernel(format!("{} holds no source package", source.display())))
}

/// Unpacks a source package into a new directory, with the distribution's patches. Its files were verified
/// when they were fetched.
pub(crate) fn unpack(description: &Path, into: &Path, stop: &Stop) -> Result<(), LabError> {
    run(
        Command::new("dpkg-source").args(["--no-check", "--no-copy", "-x"]).arg(description).arg(into),
        stop,
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_package_is_known_by_its_description() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(description_of(directory.path()).is_err());
        fs::write(directory.path().join("qemu_1.dsc"), "").expect("it can be written");
        fs::write(directory.path().join("qemu_1.tar.xz"), "").expect("it can be written");
        assert_eq!(
            description_of(directory.path()).expect("it is there"),
            directory.path().join("qemu_1.dsc")
        );
    }
}
