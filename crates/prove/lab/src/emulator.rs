//! The lab's own emulator: QEMU, built once from the distribution's source, with patches of the lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, digest_of_file, key_of};
use crate::command::{found, run, run_watched};
use crate::error::{LabError, at};
use crate::fetch::{Archive, Package, Suite, description_of, unpack};
use crate::progress::{Event, Progress, Stop};

/// The lab's patches. The head of each has its reason. They are under the GPL, as the emulator is. The
/// first gives several CPUs turns of equal length. The second lets a saved machine share memory with the
/// lab. The third sets the sizes of the caches that CPUs report. The fourth removes effects of the host's
/// time on the guest.
const PATCHES: [(&str, &str); 4] = [
    ("turns.patch", include_str!("emulator/turns.patch")),
    ("window.patch", include_str!("emulator/window.patch")),
    ("caches.patch", include_str!("emulator/caches.patch")),
    ("tlb.patch", include_str!("emulator/tlb.patch")),
];
/// The devices that the emulator has. Every further device makes the build longer.
const DEVICES: &str = include_str!("emulator/devices.mak");
/// The number of the build's recipe. It is increased when the build changes in another way than by patches,
/// devices, parts or options.
const RECIPE: &str = "1";
/// The name of the source package.
const SOURCE: &str = "qemu";
/// Packages of the archive that a build uses, even if this machine has them. QEMU needs a newer meson than
/// some releases have. The archive's source lacks the emulated machine's firmware.
const PARTS: [&str; 3] = ["meson", "qemu-system-data", "seabios"];
/// The files of the firmware: the BIOS, and the code that starts a kernel which the emulator's
/// command line names.
const FIRMWARE: [&str; 4] = [
    "usr/share/seabios/bios-256k.bin",
    "usr/share/qemu/bios-256k.bin",
    "usr/share/qemu/kvmvapic.bin",
    "usr/share/qemu/linuxboot_dma.bin",
];
/// The programs and headers that a build of the emulator needs besides the lab's own, with their packages.
pub(crate) const TOOLS: [(&str, &str); 6] = [
    ("gcc", "build-essential"),
    ("dpkg-source", "dpkg-dev"),
    ("patch", "patch"),
    ("ninja", "ninja-build"),
    ("pkg-config", "pkg-config"),
    ("/usr/bin/python3", "python3-venv"),
];
/// The headers, by their pkg-config names, with their packages.
pub(crate) const HEADERS: [(&str, &str); 2] = [("glib-2.0", "libglib2.0-dev"), ("zlib", "zlib1g-dev")];

/// The options of the build. The emulator is not installed, so its code need not be relocatable, which would
/// make it slower.
const OPTIONS: [&str; 13] = [
    "--python=/usr/bin/python3",
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--without-default-devices",
    "--with-devices-x86_64=lab",
    "--enable-tcg",
    "--disable-download",
    "--disable-install-blobs",
    "--disable-pie",
    "--disable-stack-protector",
    "--extra-ldflags=-no-pie",
    "--extra-cflags=-O3",
    "--enable-lto",
];

/// An emulator that is ready to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emulator {
    /// The version that the emulator prints about itself.
    pub version: String,
    /// The hash of the emulator's source, patches and recipe.
    pub digest: String,
    pub(crate) program: PathBuf,
    pub(crate) firmware: PathBuf,
}

/// The content of the file that the lab writes beside a built emulator.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    version: String,
}

impl Emulator {
    /// The emulator of the newest source that the archive has and that our patches fit. It is built if the
    /// cache does not have it, which takes 3 minutes on two CPUs.
    ///
    /// # Errors
    /// If no source is available, or this machine lacks a program or header that the build needs.
    pub fn prepare(
        cache: &Cache,
        archive: &Archive,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Self, LabError> {
        let lists = archive.lists_key(progress, stop)?;
        let chosen = key_of(recipe().chain([lists.as_str()]));
        let chosen = cache.root().join("emulators").join(format!("of-{chosen}"));
        if let Some(emulator) = fs::read_to_string(&chosen).ok().and_then(|key| Self::open(cache, key).ok()) {
            return Ok(emulator);
        }
        let emulator = Self::newest(cache, archive, progress, stop)?;
        fs::write(&chosen, &emulator.digest).map_err(at(&chosen))?;
        Ok(emulator)
    }

    /// Finds or builds the emulator of the newest source that works. [`Emulator::prepare`] stores which
    /// source that was, because a query for a suite without the source takes time.
    fn newest(
        cache: &Cache,
        archive: &Archive,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Self, LabError> {
        let mut reason = None;
        for suite in [Suite::Backports, Suite::Stable] {
            match Self::of(suite, cache, archive, progress, stop) {
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                Err(error @ (LabError::Missing { .. } | LabError::DiskFull { .. })) => return Err(error),
                // A suite may not have the package, or a mirror may not have the files of a package that it
                // lists.
                Err(error) => reason = Some(error),
                Ok(emulator) => return Ok(emulator),
            }
        }
        Err(reason.unwrap_or(LabError::Interrupted))
    }

    fn of(
        suite: Suite,
        cache: &Cache,
        archive: &Archive,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Self, LabError> {
        let source = archive.source_package(suite, SOURCE, progress, stop)?;
        let description = description_of(&source)?;
        let is_part = |package: &Package| PARTS.contains(&package.name());
        let parts = archive.fetch(Suite::Stable, &PARTS, progress, stop, is_part)?;
        let inputs = parts.iter().map(|(package, _)| format!("{} {}", package.file, package.checksum));
        let inputs: Vec<String> = [digest_of_file(&description)?].into_iter().chain(inputs).collect();
        let key = key_of(recipe().chain(inputs.iter().map(String::as_str)));
        cache.entry("emulators", &key, stop, |directory| {
            let debs: Vec<&Path> = parts.iter().map(|(_, deb)| deb.as_path()).collect();
            build(directory, &description, &debs, progress, stop)
        })?;
        Self::open(cache, key)
    }

    fn open(cache: &Cache, digest: String) -> Result<Self, LabError> {
        let directory = cache.root().join("emulators").join(&digest);
        let path = directory.join("emulator.json");
        let text = fs::read(&path).map_err(at(&path))?;
        let Description { version } =
            serde_json::from_slice(&text).map_err(|error| at(&path)(std::io::Error::other(error)))?;
        let (program, firmware) = (directory.join("qemu"), directory.join("firmware"));
        Ok(Self { version, digest, program, firmware })
    }

    /// The packages that this machine lacks for a build of the emulator.
    pub(crate) fn missing(stop: &Stop) -> Vec<&'static str> {
        let program = |(name, package): &(&str, &'static str)| {
            (found(name).is_none() && !Path::new(name).is_file()).then_some(*package)
        };
        let header = |(name, package): &(&str, &'static str)| {
            let asked = run(Command::new("pkg-config").args(["--exists", name]), stop);
            asked.is_err().then_some(*package)
        };
        TOOLS.iter().filter_map(program).chain(HEADERS.iter().filter_map(header)).collect()
    }
}

/// All parts of the build that are the lab's own.
fn recipe<'a>() -> impl Iterator<Item = &'a str> {
    let patches = PATCHES.iter().map(|&(_, text)| text);
    [RECIPE, DEVICES].into_iter().chain(patches).chain(PARTS).chain(FIRMWARE).chain(OPTIONS)
}

fn build(
    directory: &Path,
    description: &Path,
    parts: &[&Path],
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<(), LabError> {
    if let Some(package) = Emulator::missing(stop).first() {
        let package = (*package).to_owned();
        return Err(LabError::Missing {
            program: "what the lab's emulator is built with".to_owned(),
            package,
        });
    }
    let [tree, source, objects] = ["parts", "source", "objects"].map(|name| directory.join(name));
    progress.tell(Event::Step("unpacking the emulator's source"));
    for part in parts {
        run(Command::new("dpkg-deb").arg("-x").arg(part).arg(&tree), stop)?;
    }
    unpack(description, &source, stop)?;
    for (name, text) in PATCHES {
        let patch = directory.join(name);
        fs::write(&patch, text).map_err(at(&patch))?;
        run(Command::new("patch").args(["-p1", "--batch", "-d"]).arg(&source).arg("-i").arg(&patch), stop)?;
    }
    let devices = source.join("configs/devices/x86_64-softmmu/lab.mak");
    fs::write(&devices, DEVICES).map_err(at(&devices))?;
    fs::create_dir(&objects).map_err(at(&objects))?;
    let python = tree.join("usr/lib/python3/dist-packages");
    let idle = || {};
    progress.tell(Event::Step("configuring the emulator"));
    let mut configure = Command::new("../source/configure");
    configure.args(OPTIONS).env("PYTHONPATH", &python).current_dir(&objects);
    run_watched(&mut configure, stop, &idle)?;
    progress.tell(Event::Step("building the emulator (3 minutes on two CPUs)"));
    let jobs = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut ninja = Command::new("nice");
    ninja.args(["-n", "10", "ninja", &format!("-j{jobs}"), "qemu-system-x86_64"]);
    run_watched(ninja.env("PYTHONPATH", &python).current_dir(&objects), stop, &idle)?;
    keep(directory, &objects.join("qemu-system-x86_64"), &tree, stop)?;
    [tree, source, objects].iter().try_for_each(|path| fs::remove_dir_all(path).map_err(at(path)))
}

/// Keeps the program, the firmware, and the version that the program prints.
fn keep(directory: &Path, built: &Path, tree: &Path, stop: &Stop) -> Result<(), LabError> {
    let program = directory.join("qemu");
    run(Command::new("strip").arg("-o").arg(&program).arg(built), stop)?;
    let firmware = directory.join("firmware");
    fs::create_dir(&firmware).map_err(at(&firmware))?;
    for name in FIRMWARE {
        let from = tree.join(name);
        // A release has the BIOS in one of two places. The other place may be a link to another package,
        // which leads nowhere here.
        if from.is_file() {
            let to = firmware.join(from.file_name().unwrap_or_default());
            fs::copy(&from, &to).map_err(at(&to))?;
        }
    }
    let said = run(Command::new(&program).arg("--version"), stop)?;
    let version = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
    let path = directory.join("emulator.json");
    let text = serde_json::to_vec(&Description { version }).expect("texts can be written");
    fs::write(&path, text).map_err(at(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patches_name_their_licence_and_add_the_lab_s_option() {
        for (name, patch) in PATCHES {
            assert!(patch.starts_with("SPDX-License-Identifier: GPL-2.0-or-later\n"), "{name}");
        }
        assert!(PATCHES[0].1.contains("+            .name = \"turn\","));
    }
}
