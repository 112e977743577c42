//! Builds small kernels with other tick rates from the distribution's own source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::cache::{Cache, key_of};
use crate::command::run_watched;
use crate::error::{LabError, at};
use crate::fetch::{Archive, Package, Suite};
use crate::kernel::{Description, release_of};
use crate::progress::{Event, Progress, Stop};
use crate::recipe::code_of;

/// The configuration options that the lab needs, in addition to the smallest configuration.
const FRAGMENT: &str = include_str!("trimmed.config");
/// The options without which a built kernel is useless. A newer source may have renamed or moved other
/// options.
const NEEDED: [&str; 10] = [
    "CONFIG_SMP",
    "CONFIG_X86_PM_TIMER",
    "CONFIG_PCI_MSI",
    "CONFIG_SERIAL_8250_CONSOLE",
    "CONFIG_BLK_DEV_INITRD",
    "CONFIG_DEVTMPFS",
    "CONFIG_EROFS_FS",
    "CONFIG_BLK_DEV_PMEM",
    "CONFIG_UNIX",
    "CONFIG_FUTEX",
];
/// The programs and headers that a build of a kernel needs beyond those of the lab, with their packages.
pub(crate) const TOOLS: [(&str, &str); 6] = [
    ("gcc", "gcc"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("pahole", "dwarves"),
];
/// The tick rates that the kernel's configuration offers, Hz.
const RATES_HZ: [u32; 4] = [100, 250, 300, 1000];

/// Finds the newest kernel that was built with this tick rate.
pub(crate) fn find(cache: &Cache, hz: u32) -> Result<PathBuf, LabError> {
    let home = cache.root().join(format!("built-{hz}hz"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let entries = fs::read_dir(&home).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    entries.max_by_key(age).ok_or_else(|| {
        LabError::Kernel(format!(
            "no kernel of {hz} Hz has been built yet: `spry lab kernel build --hz {hz}` does"
        ))
    })
}

/// Builds a kernel with this tick rate if the cache does not have it.
pub(crate) fn build(
    cache: &Cache,
    archive: &Archive,
    hz: u32,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<PathBuf, LabError> {
    if !RATES_HZ.contains(&hz) {
        return Err(LabError::Kernel(format!(
            "a kernel cannot tick {hz} times a second: say 100, 250, 300 or 1000"
        )));
    }
    for (program, package) in TOOLS {
        if crate::command::found(program).is_none() {
            return Err(LabError::Missing { program: program.to_owned(), package: package.to_owned() });
        }
    }
    let is_source = |package: &Package| {
        package
            .name()
            .strip_prefix("linux-source-")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let packages = archive.fetch(Suite::Backports, &["linux-source"], progress, stop, is_source)?;
    let (package, deb) = packages.first().ok_or_else(|| {
        LabError::Kernel("the archive's package linux-source leads to no source".to_owned())
    })?;
    let rate = hz.to_string();
    let key = key_of([FRAGMENT, &code_of(include_str!("build.rs")), &package.file, &package.checksum, &rate]);
    cache.entry(&format!("built-{hz}hz"), &key, stop, |directory| {
        let tree = directory.join("tree");
        fs::create_dir(&tree).map_err(at(&tree))?;
        let source = unpack(deb, &tree, progress, stop)?;
        make(&source, hz, progress, stop)?;
        keep(&source, directory)?;
        fs::remove_dir_all(&tree).map_err(at(&tree))
    })
}

fn unpack(deb: &Path, tree: &Path, progress: &dyn Progress, stop: &Stop) -> Result<PathBuf, LabError> {
    progress.tell(Event::Step("unpacking the kernel's source"));
    let idle = || {};
    run_watched(Command::new("dpkg-deb").arg("-x").arg(deb).arg(tree), stop, &idle)?;
    let home = tree.join("usr/src");
    let is_tar = |path: &PathBuf| path.to_string_lossy().contains(".tar");
    let mut entries = fs::read_dir(&home).map_err(at(&home))?.filter_map(|entry| Some(entry.ok()?.path()));
    let tar = entries
        .find(is_tar)
        .ok_or_else(|| LabError::Kernel("the source package holds no source".to_owned()))?;
    let source = tree.join("source");
    fs::create_dir(&source).map_err(at(&source))?;
    let mut command = Command::new("tar");
    command.arg("-C").arg(&source).args(["--strip-components=1", "--no-same-owner", "-xf"]).arg(&tar);
    run_watched(&mut command, stop, &idle)?;
    fs::remove_file(&tar).map_err(at(&tar))?;
    Ok(source)
}

fn make(source: &Path, hz: u32, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
    progress.tell(Event::Step("configuring the kernel"));
    // The image contains nothing that differs from machine to machine.
    let make = |targets: &[&str]| {
        let jobs = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut command = Command::new("nice");
        command.args(["-n", "10", "make", "-C"]).arg(source).arg(format!("-j{jobs}"));
        command.args([
            "KBUILD_BUILD_USER=spry",
            "KBUILD_BUILD_HOST=lab",
            "KBUILD_BUILD_TIMESTAMP=2026-01-01",
        ]);
        command.args(targets);
        command
    };
    let idle = || {};
    run_watched(&mut make(&["tinyconfig"]), stop, &idle)?;
    let path = source.join(".config");
    let tiny = fs::read_to_string(&path).map_err(at(&path))?;
    let wanted = format!("{FRAGMENT}CONFIG_HZ_{hz}=y\nCONFIG_LOCALVERSION=\"-spry-{hz}hz\"\n");
    fs::write(&path, merged(&tiny, &wanted)).map_err(at(&path))?;
    run_watched(&mut make(&["olddefconfig"]), stop, &idle)?;
    let config = fs::read_to_string(&path).map_err(at(&path))?;
    let rate = format!("CONFIG_HZ_{hz}");
    for option in NEEDED.into_iter().chain([rate.as_str()]) {
        if !config.lines().any(|line| line.strip_prefix(option) == Some("=y")) {
            return Err(LabError::Kernel(format!("this source does not take {option} any more: report it")));
        }
    }
    progress.tell(Event::Step("building the kernel (5 to 10 minutes)"));
    run_watched(&mut make(&["bzImage"]), stop, &idle).map(|_| ())
}

/// Merges two configurations: the lines of `wanted` replace the lines of `config` about the same options.
fn merged(config: &str, wanted: &str) -> String {
    let name = |line: &str| {
        let set = line.split_once('=').map(|(name, _)| name.to_owned());
        set.or_else(|| Some(line.strip_prefix("# ")?.strip_suffix(" is not set")?.to_owned()))
    };
    let new: Vec<String> = wanted.lines().filter(|line| !line.starts_with('#')).filter_map(name).collect();
    // In a choice (the tick rate, the preemption model) only the new answer may stand.
    let is_old = |line: &&str| {
        name(line).is_none_or(|name| {
            !new.contains(&name) && !name.starts_with("CONFIG_HZ") && !name.starts_with("CONFIG_PREEMPT")
        })
    };
    let mut lines: Vec<&str> = config.lines().filter(is_old).collect();
    lines.push(wanted);
    lines.join("\n")
}

fn keep(source: &Path, directory: &Path) -> Result<(), LabError> {
    let modules = directory.join("modules");
    fs::create_dir(&modules).map_err(at(&modules))?;
    let files = [
        ("arch/x86/boot/bzImage", "vmlinuz"),
        (".config", "config"),
        ("modules.builtin", "modules/modules.builtin"),
    ];
    for (from, to) in files {
        let to = directory.join(to);
        fs::copy(source.join(from), &to).map_err(at(&to))?;
    }
    let release = release_of(&directory.join("vmlinuz"))?;
    Description::write(directory, release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_answers_replace_old_ones() {
        let old =
            "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n# CONFIG_SMP is not set\n";
        let config = merged(old, "# a comment\nCONFIG_SMP=y\nCONFIG_B=y\nCONFIG_HZ_100=y\n");
        assert_eq!(config, "CONFIG_A=y\n# a comment\nCONFIG_SMP=y\nCONFIG_B=y\nCONFIG_HZ_100=y\n");
    }

    #[test]
    fn the_fragment_asks_for_all_that_is_needed() {
        for option in NEEDED {
            assert!(FRAGMENT.lines().any(|line| line == format!("{option}=y")), "{option}");
        }
    }

    #[test]
    fn a_kernel_that_was_never_built_is_an_error_that_says_how_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path()).expect("it opens");
        let error = find(&cache, 100).expect_err("none is there").to_string();
        assert!(error.contains("spry lab kernel build --hz 100"), "{error}");
    }
}
