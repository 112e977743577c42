//! Source packages of the distribution, for whoever compiles one.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Archive, CONFIGURATION, Suite};
use crate::cache::key_of;
use crate::command::run;
use crate::error::{LabError, at};
use crate::progress::{Event, Progress, Stop};

impl Archive {
    /// The directory that holds a source package of a suite as the archive has it, neither unpacked nor patched;
    /// fetched once.
    ///
    /// # Errors
    /// Where there is no such package, or it cannot be fetched or verified.
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

    /// With lists of its own, which are not kept: they are large, and of no other use.
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
