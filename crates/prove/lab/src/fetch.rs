//! Fetches packages of the distribution's newest release, or of the one before, through apt. apt keeps its
//! state in the lab's cache, so nothing of this machine changes.

mod source;

pub(crate) use source::{description_of, unpack};

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use spry_experiment::digest;

use crate::cache::{Cache, key_of};
use crate::command::{run, run_watched};
use crate::error::{LabError, at};
use crate::progress::{Event, Progress, Stop};
use crate::sources::{self, Source};

/// The files of the archive's keys, if apt's configuration names none.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

/// The configuration that apt gets in addition to this machine's own, which may name proxies. apt runs no
/// hooks, fetches only what is used, and prefers no release.
const CONFIGURATION: &str = "#clear APT::Update;\n#clear DPkg;\n\
    #clear Acquire::IndexTargets::deb::DEP-11;\n#clear Acquire::IndexTargets::deb::DEP-11-icons;\n\
    #clear Acquire::IndexTargets::deb::DEP-11-icons-small;\n#clear \
    Acquire::IndexTargets::deb::DEP-11-icons-large;\n\
    #clear Acquire::IndexTargets::deb::DEP-11-icons-hidpi;\n#clear \
    Acquire::IndexTargets::deb::Contents-deb;\n\
    APT::Architecture \"amd64\";\n#clear APT::Architectures;\nAPT::Architectures { \"amd64\"; };\n\
    APT::Default-Release \"\";\nAPT::Install-Recommends \"false\";\nAPT::Install-Suggests \"false\";\n\
    APT::Sandbox::User \"root\";\nAPT::Get::List-Cleanup \"true\";\nAcquire::Languages \"none\";\n\
    Acquire::AllowReleaseInfoChange \"true\";\nAcquire::ForceHash \"sha256\";\n\
    Acquire::Retries \"5\";\n";

/// A suite of the archive. The release's own name is found when the lists are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// The archive's release.
    Stable,
    /// Newer packages for the release; kernels are among them.
    Backports,
}

/// A release of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Newest,
    /// The release before the newest. It is still supported.
    Older,
}

impl Release {
    /// The archive's name for the release, whatever the release's own name is. Under this name some mirrors
    /// have older lists than under the release's own name. So the lists are asked for under the latter.
    fn suite(self) -> &'static str {
        match self {
            Self::Newest => "stable",
            Self::Older => "oldstable",
        }
    }
}

/// A package that the archive offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The name of the package's file: name, version and architecture.
    pub file: String,
    /// The size of the file, bytes.
    pub size: u64,
    /// The archive's checksum of the file, with the kind of the checksum.
    pub checksum: String,
}

impl Package {
    /// The package's name.
    pub fn name(&self) -> &str {
        self.file.split('_').next().unwrap_or_default()
    }

    /// The package's version.
    pub fn version(&self) -> String {
        self.file.split('_').nth(1).unwrap_or_default().replace("%3a", ":")
    }
}

/// The archive of packages, and what has been fetched from it.
#[derive(Clone, Debug)]
pub struct Archive {
    cache: Cache,
    source: Source,
    release: Release,
    directory: PathBuf,
}

impl Archive {
    /// Opens the archive that `mirror` names; if it names none, the archive of this machine's apt.
    ///
    /// # Errors
    /// If apt's configuration names no archive, or the cache cannot be written.
    pub fn open(cache: &Cache, mirror: Option<&str>) -> Result<Self, LabError> {
        let from_environment = env::var("SPRY_MIRROR").ok();
        let named = mirror.or(from_environment.as_deref()).filter(|uri| !uri.is_empty());
        let source = match named {
            Some(uri) => Source {
                uri: uri.to_owned(),
                suites: Vec::new(),
                components: Vec::new(),
                signed_by: Vec::new(),
            },
            None => {
                sources::distribution(Path::new("/etc/apt")).into_iter().next().ok_or(LabError::NoMirror)?
            }
        };
        Self::of(cache, source, Release::Newest)
    }

    /// The same archive's packages of the release before the newest. Its lists are fetched when a package is
    /// asked for, and are kept apart from those of the newest release.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub(crate) fn older(&self) -> Result<Self, LabError> {
        Self::of(&self.cache, self.source.clone(), Release::Older)
    }

    fn of(cache: &Cache, source: Source, release: Release) -> Result<Self, LabError> {
        let key = match release {
            Release::Newest => key_of([source.uri.as_str()]),
            Release::Older => key_of([source.uri.as_str(), release.suite()]),
        };
        let directory = cache.root().join("apt").join(key);
        for inner in ["lists/partial", "archives/partial", "debs", "resolved"] {
            let path = directory.join(inner);
            fs::create_dir_all(&path).map_err(at(&path))?;
        }
        let archive = Self { cache: cache.clone(), source, release, directory };
        archive.line(release.suite(), "")?;
        archive.write("status", "")?;
        archive.write("apt.conf", CONFIGURATION)?;
        Ok(archive)
    }

    /// The archive's address.
    pub fn uri(&self) -> &str {
        &self.source.uri
    }

    /// The key files with which the archive's signatures are checked.
    pub fn keyrings(&self) -> Vec<PathBuf> {
        let there = |path: &&PathBuf| path.exists();
        let configured: Vec<PathBuf> = self.source.signed_by.iter().filter(there).cloned().collect();
        if !configured.is_empty() {
            return configured;
        }
        KEYRINGS.iter().map(PathBuf::from).filter(|path| path.exists()).take(1).collect()
    }

    /// A line for a suite in apt's list of sources.
    fn line(&self, suite: &str, option: &str) -> Result<String, LabError> {
        let keys: Vec<String> = self.keyrings().iter().map(|path| path.display().to_string()).collect();
        if keys.is_empty() {
            return Err(LabError::Keyring {
                suite: suite.to_owned(),
                detail: "there is no debian-archive-keyring".to_owned(),
            });
        }
        Ok(format!("deb [{option}signed-by={}] {} {suite} main\n", keys.join(","), self.source.uri))
    }

    /// The archive's name for a suite, taken from the lists that have been fetched.
    fn name_of(&self, suite: Suite) -> Result<String, LabError> {
        let path = self.directory.join("codename");
        let codename = fs::read_to_string(&path).map_err(at(&path))?;
        Ok(match suite {
            Suite::Stable => codename,
            Suite::Backports => format!("{codename}-backports"),
        })
    }

    fn write(&self, name: &str, text: &str) -> Result<(), LabError> {
        let path = self.directory.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        fs::write(&path, text).map_err(at(&path))
    }

    fn apt(&self, program: &str) -> Command {
        let file = |name: &str| self.directory.join(name).display().to_string();
        let mut command = Command::new(program);
        command.arg("-c").arg(file("apt.conf"));
        let options = [
            ("Dir::State", self.directory.display().to_string()),
            ("Dir::State::status", file("status")),
            ("Dir::State::lists", file("lists")),
            ("Dir::Cache", self.directory.display().to_string()),
            ("Dir::Cache::archives", file("archives")),
            ("Dir::Etc::sourcelist", file("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
            ("Dir::Etc::preferences", "/dev/null".to_owned()),
            ("Dir::Etc::preferencesparts", "/dev/null".to_owned()),
        ];
        for (name, value) in options {
            command.arg("-o").arg(format!("{name}={value}"));
        }
        command
    }

    /// Fetches the newest lists of packages; those of the older release as well, if they have been
    /// fetched before.
    ///
    /// # Errors
    /// If the archive cannot be reached, or its signatures cannot be checked.
    pub fn refresh(&self, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
        let _lock = self.cache.lock("apt", stop)?;
        self.update(progress, stop)?;
        if self.release == Release::Newest {
            let older = self.older()?;
            if older.has_lists() {
                older.update(progress, stop)?;
            }
        }
        Ok(())
    }

    /// Fetches the newest lists of packages without showing progress.
    pub(crate) fn refresh_quietly(&self, stop: &Stop) -> Result<(), LabError> {
        self.refresh(&|_: Event<'_>| {}, stop)
    }

    fn update(&self, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
        progress.tell(Event::Step("fetching the lists of packages"));
        // First apt asks for the release's own name, then for the release's lists.
        let suite = self.release.suite();
        self.write("sources.list", &self.line(suite, "target-=Packages ")?)?;
        self.apt_update(suite, stop)?;
        let codename = self.codename()?;
        let mut lines = self.line(&codename, "")?;
        if self.release == Release::Newest {
            lines += &self.line(&format!("{codename}-backports"), "")?;
        }
        self.write("sources.list", &lines)?;
        self.apt_update(&codename, stop)?;
        self.write("codename", &codename)
    }

    fn apt_update(&self, suite: &str, stop: &Stop) -> Result<(), LabError> {
        let mut command = self.apt("apt-get");
        match run(command.args(["-qq", "--error-on=any", "update"]), stop) {
            Ok(_) => Ok(()),
            Err(LabError::Tool { stderr, .. }) if is_about_keys(&stderr) => {
                Err(LabError::Keyring { suite: suite.to_owned(), detail: stderr })
            }
            Err(error) => Err(self.not_fetched("the lists of packages", error)),
        }
    }

    /// Says of a failed program of apt what it could not fetch. Other errors stay as they are.
    fn not_fetched(&self, what: &'static str, error: LabError) -> LabError {
        match error {
            LabError::Tool { stderr, .. } => {
                LabError::NotFetched { what, archive: self.uri().to_owned(), detail: stderr }
            }
            other => other,
        }
    }

    /// The release's own name.
    fn codename(&self) -> Result<String, LabError> {
        for release in self.releases()? {
            let text = fs::read_to_string(&release).map_err(at(&release))?;
            if field(&text, "Suite") == Some(self.release.suite()) {
                if let Some(codename) = field(&text, "Codename") {
                    return Ok(codename.to_owned());
                }
            }
        }
        Err(LabError::Kernel(format!(
            "{} is no archive of Debian: it has no suite {}",
            self.source.uri,
            self.release.suite()
        )))
    }

    /// The age of the fetched lists; `None` if there are none.
    pub(crate) fn lists_age(&self) -> Option<std::time::Duration> {
        let newest = self
            .releases()
            .ok()?
            .into_iter()
            .map(|path| fs::metadata(path)?.modified())
            .max_by_key(|time: &std::io::Result<std::time::SystemTime>| time.as_ref().ok().copied())?;
        newest.ok()?.elapsed().ok()
    }

    fn releases(&self) -> Result<Vec<PathBuf>, LabError> {
        let lists = self.directory.join("lists");
        let mut found = Vec::new();
        for entry in fs::read_dir(&lists).map_err(at(&lists))? {
            let path = entry.map_err(at(&lists))?.path();
            if path.to_string_lossy().ends_with("Release") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    /// The hash of the fetched lists. It changes when the archive offers other packages. If there are no
    /// lists, they are fetched.
    pub(crate) fn lists_key(&self, progress: &dyn Progress, stop: &Stop) -> Result<String, LabError> {
        let _lock = self.cache.lock("apt", stop)?;
        self.have_lists(progress, stop)?;
        let digests = self.digests_of_lists()?;
        Ok(key_of([self.uri()].into_iter().chain(digests.iter().map(String::as_str))))
    }

    fn have_lists(&self, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
        if self.has_lists() { Ok(()) } else { self.update(progress, stop) }
    }

    fn has_lists(&self) -> bool {
        self.directory.join("codename").exists()
    }

    fn digests_of_lists(&self) -> Result<Vec<String>, LabError> {
        let digest = |release: PathBuf| Ok(digest::of_bytes(&fs::read(&release).map_err(at(&release))?));
        self.releases()?.into_iter().map(digest).collect()
    }

    /// All packages that an empty system needs to install these packages, according to the lists that
    /// were fetched last.
    ///
    /// # Errors
    /// If there is no such package, or the lists cannot be fetched.
    pub fn resolve(
        &self,
        suite: Suite,
        names: &[&str],
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Vec<Package>, LabError> {
        let _lock = self.cache.lock("apt", stop)?;
        self.have_lists(progress, stop)?;
        let mut parts: Vec<String> = vec![self.name_of(suite)?, CONFIGURATION.to_owned()];
        parts.extend(self.digests_of_lists()?);
        parts.extend(names.iter().map(|&name| name.to_owned()));
        let key = key_of(parts.iter().map(String::as_str));
        let known = self.directory.join("resolved").join(key);
        if let Some(packages) = fs::read(&known).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
            return Ok(packages);
        }
        progress.tell(Event::Step("resolving packages"));
        let packages = self.print_uris(suite, names, stop)?;
        let text = serde_json::to_vec(&packages).expect("texts and numbers can be written");
        fs::write(&known, text).map_err(at(&known))?;
        Ok(packages)
    }

    fn print_uris(&self, suite: Suite, names: &[&str], stop: &Stop) -> Result<Vec<Package>, LabError> {
        let suite = self.name_of(suite)?;
        let mut command = self.apt("apt-get");
        command.args(["-qq", "-y", "--print-uris", "-t", &suite, "install"]).args(names);
        match run(&mut command, stop) {
            Ok(output) => Ok(uris(&String::from_utf8_lossy(&output))),
            Err(LabError::Tool { stderr, .. }) if missing_package(&stderr).is_some() => {
                let package = missing_package(&stderr).unwrap_or_default();
                Err(LabError::NoPackage { suite, package })
            }
            Err(error) => Err(error),
        }
    }

    /// Fetches the packages that the cache does not have. Returns the files of all of them, in
    /// the same order.
    ///
    /// # Errors
    /// If a package cannot be fetched, or is not what the archive's signed lists say.
    pub fn download(
        &self,
        packages: &[Package],
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Vec<PathBuf>, LabError> {
        let _lock = self.cache.lock("debs", stop)?;
        let debs = self.directory.join("debs");
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let is_there = |package: &&Package| size(&debs.join(&package.file)) == package.size;
        let missing: Vec<&Package> = packages.iter().filter(|package| !is_there(package)).collect();
        if !missing.is_empty() {
            progress.tell(Event::Step("fetching packages"));
            let total = missing.iter().map(|package| package.size).sum();
            let look = || {
                let there = |package: &&Package| size(&debs.join(&package.file)).min(package.size);
                progress.tell(Event::Bytes { done: missing.iter().map(there).sum(), total });
            };
            let wanted = missing.iter().map(|package| format!("{}={}", package.name(), package.version()));
            let mut command = self.apt("apt-get");
            command.current_dir(&debs).args(["-qq", "download"]).args(wanted);
            run_watched(&mut command, stop, &look).map_err(|error| self.not_fetched("packages", error))?;
        }
        Ok(packages.iter().map(|package| debs.join(&package.file)).collect())
    }

    /// Resolves and fetches packages. If the archive no longer has a package of the fetched lists, it fetches
    /// new lists and tries once more.
    ///
    /// # Errors
    /// As [`Archive::resolve`] and [`Archive::download`].
    pub fn fetch(
        &self,
        suite: Suite,
        names: &[&str],
        progress: &dyn Progress,
        stop: &Stop,
        keep: impl Fn(&Package) -> bool,
    ) -> Result<Vec<(Package, PathBuf)>, LabError> {
        let mut is_fresh = false;
        loop {
            let mut packages = self.resolve(suite, names, progress, stop)?;
            packages.retain(&keep);
            match self.download(&packages, progress, stop) {
                Ok(files) => return Ok(packages.into_iter().zip(files).collect()),
                Err(LabError::NotFetched { detail, .. }) if !is_fresh && detail.contains("404") => {
                    self.refresh(progress, stop)?;
                    is_fresh = true;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_about_keys(stderr: &str) -> bool {
    ["NO_PUBKEY", "not signed", "EXPKEYSIG", "Missing key"].iter().any(|word| stderr.contains(word))
}

/// The value of a field in the description of a release.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// The name of the package that apt does not know, taken from its error.
fn missing_package(stderr: &str) -> Option<String> {
    stderr.lines().find_map(|line| {
        let package = line.split("Unable to locate package ").nth(1);
        package
            .or_else(|| line.split("Package '").nth(1)?.split("' has no installation candidate").next())
            .map(|name| name.trim().to_owned())
    })
}

/// Reads the output of `apt-get --print-uris`. Each line has an address in quotes, the file, its size
/// and its checksum.
fn uris(text: &str) -> Vec<Package> {
    let package = |line: &str| {
        let mut words = line.strip_prefix('\'')?.split_once("' ")?.1.split(' ');
        let file = words.next()?.to_owned();
        let size = words.next()?.parse().ok()?;
        Some(Package { file, size, checksum: words.next().unwrap_or_default().to_owned() })
    };
    text.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_with_epochs_in_their_versions() {
        let text =
            "'http://m.example/d/b_1.37_amd64.deb' busybox-static_1%3a1.37.0-6+b9_amd64.deb 9 SHA256:ab\n";
        let found = uris(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name(), found[0].version().as_str()), ("busybox-static", "1:1.37.0-6+b9"));
        assert_eq!((found[0].size, found[0].checksum.as_str()), (9, "SHA256:ab"));
    }

    #[test]
    fn a_package_that_does_not_exist_is_named() {
        assert_eq!(missing_package("E: Unable to locate package mplayr").as_deref(), Some("mplayr"));
        let other = "E: Package 'xine' has no installation candidate";
        assert_eq!(missing_package(other).as_deref(), Some("xine"));
        assert_eq!(missing_package("E: Could not get lock"), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "Suite: stable\nCodename: trixie\nCodenames: no\n";
        assert_eq!((field(text, "Codename"), field(text, "Code")), (Some("trixie"), None));
    }

    #[test]
    fn missing_keys_are_told_from_a_mirror_that_is_down() {
        assert!(is_about_keys("the public key is not available: NO_PUBKEY 6ED0E7B82643E131"));
        assert!(!is_about_keys("Could not resolve 'mirror.example'"));
    }
}
