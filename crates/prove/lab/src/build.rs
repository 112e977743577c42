//! Builds small kernels with other tick rates from the distribution's own source.

mod edits;
mod firm;
mod patch;
mod tools;
mod variant;

pub(crate) use tools::missing;
pub use variant::{RATES_HZ, Ticks, Timers, Variant};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use spry_experiment::digest;

use crate::cache::{Cache, key_of};
use crate::command::run_watched;
use crate::error::{LabError, at};
use crate::fetch::{Archive, Package, Suite};
use crate::kernel::{Description, release_of};
use crate::progress::{Event, Progress, Stop};
use crate::recipe::code_of;
use edits::Edits;
use patch::Patch;

/// The configuration options that the lab needs, in addition to the smallest configuration.
const FRAGMENT: &str = include_str!("trimmed.config");
/// The options without which a built kernel is useless. A newer source may have renamed or
/// moved other options.
const NEEDED: [&str; 11] = [
    "CONFIG_SMP",
    "CONFIG_X86_PM_TIMER",
    "CONFIG_X86_IOPL_IOPERM",
    "CONFIG_PCI_MSI",
    "CONFIG_SERIAL_8250_CONSOLE",
    "CONFIG_BLK_DEV_INITRD",
    "CONFIG_DEVTMPFS",
    "CONFIG_EROFS_FS",
    "CONFIG_BLK_DEV_PMEM",
    "CONFIG_UNIX",
    "CONFIG_FUTEX",
];
/// Options of the fragment that a kernel without high-resolution timers does not have.
const NOT_PERIODIC: [&str; 2] = ["CONFIG_HIGH_RES_TIMERS", "CONFIG_NO_HZ_IDLE"];
/// The beginning of the name of each directory of built kernels in the cache.
const HOME: &str = "built-";

/// Finds the kernel of this variant that was built last.
pub(crate) fn find(cache: &Cache, variant: &Variant) -> Result<PathBuf, LabError> {
    latest(&cache.root().join(format!("{HOME}{variant}"))).ok_or_else(|| {
        LabError::Kernel(format!("no kernel {variant} has been built yet: `{}` does", variant.command()))
    })
}

fn latest(home: &Path) -> Option<PathBuf> {
    let age = |path: &PathBuf| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let entries = fs::read_dir(home).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    entries.max_by_key(age)
}

/// The kernels that the cache has, by their names, with the release of each kernel's latest build.
pub fn built_kernels(cache: &Cache) -> Vec<(Variant, String)> {
    let entries = fs::read_dir(cache.root()).into_iter().flatten();
    let mut found: Vec<(Variant, String)> = entries
        .filter_map(|entry| {
            let home = entry.ok()?.path();
            let variant = home.file_name()?.to_str()?.strip_prefix(HOME)?.parse().ok()?;
            let text = fs::read(latest(&home)?.join(Description::FILE)).ok()?;
            let Description { release, .. } = serde_json::from_slice(&text).ok()?;
            Some((variant, release))
        })
        .collect();
    found.sort_by_key(|(variant, _)| (variant.hz, variant.to_string()));
    found
}

/// Builds a kernel if the cache does not have it, with the patch of this file. Returns the variant that was
/// built, which has the patch's name.
pub(crate) fn build(
    cache: &Cache,
    archive: &Archive,
    wanted: &Variant,
    patch: Option<&Path>,
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Variant, LabError> {
    let patch = patch.map(Patch::read).transpose()?;
    let name = patch.as_ref().map(|patch| Variant::patch_name(patch.file));
    let variant = Variant { patch: name, ..wanted.clone() };
    tools::require(stop)?;
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
    let mut inputs = vec![FRAGMENT.to_owned(), code_of(include_str!("build.rs")), variant.to_string()];
    inputs.extend([package.file.clone(), package.checksum.clone()]);
    let edits: Vec<&Edits> = variant.edits().collect();
    inputs.extend(edits.iter().map(|edits| edits.texts()));
    inputs.extend(patch.as_ref().map(|patch| digest::of_bytes(&patch.content)));
    let key = key_of(inputs.iter().map(String::as_str));
    cache.entry(&format!("{HOME}{variant}"), &key, stop, |directory| {
        let tree = directory.join("tree");
        fs::create_dir(&tree).map_err(at(&tree))?;
        let built = unpack(deb, &tree, progress, stop).and_then(|source| {
            edits.iter().try_for_each(|edits| edits.apply(&source))?;
            if let Some(patch) = &patch {
                patch.apply(&source, package.name(), stop)?;
            }
            make(&source, &variant, progress, stop)?;
            keep(&source, directory)
        });
        // A source has some 100,000 files. Their removal takes seconds, or minutes on a busy disk.
        progress.tell(Event::Step("removing the kernel's source"));
        built.and(fs::remove_dir_all(&tree).map_err(at(&tree)))
    })?;
    Ok(variant)
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

fn make(source: &Path, variant: &Variant, progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
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
    fs::write(&path, merged(&tiny, &wanted(variant))).map_err(at(&path))?;
    run_watched(&mut make(&["olddefconfig"]), stop, &idle)?;
    let config = fs::read_to_string(&path).map_err(at(&path))?;
    let rate = format!("CONFIG_HZ_{}", variant.hz);
    let periodic = matches!(variant.ticks, Ticks::Always).then_some("CONFIG_HZ_PERIODIC");
    let is_set = |option: &str| config.lines().any(|line| line.strip_prefix(option) == Some("=y"));
    for option in NEEDED.into_iter().chain([rate.as_str()]).chain(periodic) {
        if !is_set(option) {
            return Err(LabError::Kernel(format!("this source does not take {option} any more: report it")));
        }
    }
    if let Some(option) = NOT_PERIODIC.into_iter().find(|option| periodic.is_some() && is_set(option)) {
        return Err(LabError::Kernel(format!("this source cannot be without {option} any more: report it")));
    }
    progress.tell(Event::Step("building the kernel (10 minutes on two CPUs)"));
    run_watched(&mut make(&["bzImage"]), stop, &idle).map(|_| ())
}

/// The configuration of a kernel of this variant.
fn wanted(variant: &Variant) -> String {
    let named = |line: &&str| !NOT_PERIODIC.iter().any(|name| line.strip_prefix(name) == Some("=y"));
    let mut lines: Vec<String> = match variant.ticks {
        Ticks::WhenBusy => FRAGMENT.lines().map(str::to_owned).collect(),
        Ticks::Always => {
            let kept = FRAGMENT.lines().filter(named).map(str::to_owned);
            kept.chain(["CONFIG_HZ_PERIODIC=y".to_owned()]).collect()
        }
    };
    lines.push(format!("CONFIG_HZ_{}=y", variant.hz));
    lines.push(format!("CONFIG_LOCALVERSION=\"-spry-{variant}\"\n"));
    lines.join("\n")
}

/// Merges two configurations: the lines of `wanted` replace the lines of `config` about the same options.
fn merged(config: &str, wanted: &str) -> String {
    let name = |line: &str| {
        let set = line.split_once('=').map(|(name, _)| name.to_owned());
        set.or_else(|| Some(line.strip_prefix("# ")?.strip_suffix(" is not set")?.to_owned()))
    };
    let new: Vec<String> = wanted.lines().filter(|line| !line.starts_with('#')).filter_map(name).collect();
    // In a choice (the tick rate, the preemption model) only the new answer may be present.
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
        let variant: Variant = "20000hz-periodic".parse().expect("it is a name");
        let error = find(&cache, &variant).expect_err("none is there").to_string();
        assert!(error.contains("spry lab kernel build --hz 20000 --periodic"), "{error}");
    }

    #[test]
    fn kernels_that_were_built_are_listed_by_rate() {
        let directory = tempfile::tempdir().expect("a directory");
        let cache = Cache::open(directory.path()).expect("it opens");
        for (name, release) in [("1000hz+mine", "9-c"), ("100hz-periodic", "9-b"), ("100hz", "9-a")] {
            let entry = directory.path().join(format!("built-{name}/key"));
            fs::create_dir_all(&entry).expect("it can be made");
            let text = format!("{{\"release\":\"{release}\",\"digest\":\"d\"}}");
            fs::write(entry.join(Description::FILE), text).expect("it can be written");
        }
        let found = built_kernels(&cache);
        let names: Vec<String> =
            found.iter().map(|(variant, release)| format!("{variant} {release}")).collect();
        assert_eq!(names, ["100hz 9-a", "100hz-periodic 9-b", "1000hz+mine 9-c"]);
        let found = find(&cache, &found[2].0).expect("it was built");
        assert!(found.ends_with("built-1000hz+mine/key"), "{}", found.display());
    }

    #[test]
    fn a_kernel_that_ticks_always_has_no_finer_timers() {
        let config = |name: &str| wanted(&name.parse().expect("it is a name"));
        let periodic = config("20000hz-periodic");
        assert!(periodic.contains("CONFIG_HZ_PERIODIC=y\nCONFIG_HZ_20000=y\n"), "{periodic}");
        assert!(periodic.ends_with("CONFIG_LOCALVERSION=\"-spry-20000hz-periodic\"\n"), "{periodic}");
        let busy = config("100hz");
        for option in NOT_PERIODIC {
            assert!(busy.contains(&format!("{option}=y\n")) && !periodic.contains(option), "{option}");
        }
    }
}
