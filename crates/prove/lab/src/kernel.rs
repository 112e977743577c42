//! Kernels for the guest: from the distribution's packages, from any file, or built by the lab.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::build::{self, Variant};
use crate::cache::{Cache, digest_of_file, key_of};
use crate::command::run;
use crate::error::{LabError, at};
use crate::fetch::{Archive, Package, Suite};
use crate::modules::Modules;
use crate::progress::{Event, Progress, Stop};
use crate::recipe::code_of;

/// Which kernel the guest runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelChoice {
    /// The newest kernel of the archive that has sched_ext.
    Newest(Flavour),
    /// The kernel of the distribution's newest release. Its preemption model can be chosen at boot if the
    /// architecture allows it.
    Stable(Flavour),
    /// The kernel of the release before the newest, which is still supported.
    Older(Flavour),
    /// A file with a bootable kernel. Its modules and its configuration are looked for where the machine of
    /// that kernel keeps them.
    File(PathBuf),
    /// A small kernel that [`build_kernel`](crate::Lab::build_kernel) builds.
    Built(Variant),
}

/// A flavour: one of the distribution's configurations of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// The small configuration for virtual machines.
    Cloud,
    /// The configuration with all drivers, `uinput` among them.
    Generic,
    /// The fully preemptible configuration, for real-time work.
    Rt,
}

impl Flavour {
    fn package(self) -> &'static str {
        match self {
            Self::Cloud => "linux-image-cloud-amd64",
            Self::Generic => "linux-image-amd64",
            Self::Rt => "linux-image-rt-amd64",
        }
    }
}

impl Default for KernelChoice {
    fn default() -> Self {
        Self::Newest(Flavour::Cloud)
    }
}

const CHOICES: [(&str, KernelChoice); 8] = [
    ("newest", KernelChoice::Newest(Flavour::Cloud)),
    ("newest-generic", KernelChoice::Newest(Flavour::Generic)),
    ("newest-rt", KernelChoice::Newest(Flavour::Rt)),
    ("stable", KernelChoice::Stable(Flavour::Cloud)),
    ("stable-generic", KernelChoice::Stable(Flavour::Generic)),
    ("stable-rt", KernelChoice::Stable(Flavour::Rt)),
    ("older", KernelChoice::Older(Flavour::Cloud)),
    ("older-generic", KernelChoice::Older(Flavour::Generic)),
];

impl FromStr for KernelChoice {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        if let Some((_, choice)) = CHOICES.iter().find(|(name, _)| *name == text) {
            return Ok(choice.clone());
        }
        if text.contains('/') || Path::new(text).is_file() {
            return Ok(Self::File(text.into()));
        }
        if Variant::is_meant_by(text) {
            return Ok(Self::Built(text.parse()?));
        }
        let names: Vec<&str> = CHOICES.iter().map(|(name, _)| *name).collect();
        Err(LabError::Kernel(format!(
            "there is no kernel `{text}`: say {}, one that was built such as 1000hz, or a file's path",
            names.join(", ")
        )))
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (CHOICES.iter().find(|(_, choice)| choice == self), self) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Self::File(path)) => write!(f, "{}", path.display()),
            (None, Self::Built(variant)) => write!(f, "{variant}"),
            (None, Self::Newest(_) | Self::Stable(_) | Self::Older(_)) => f.write_str("kernel"),
        }
    }
}

/// A kernel with which a guest can boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The hash of the kernel's image.
    pub digest: String,
    pub(crate) image: PathBuf,
    pub(crate) config: Option<PathBuf>,
    pub(crate) modules: PathBuf,
}

/// What the lab writes into a file beside an unpacked kernel.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) release: String,
    pub(crate) digest: String,
}

impl Description {
    pub(crate) const FILE: &'static str = "kernel.json";

    pub(crate) fn write(directory: &Path, release: String) -> Result<(), LabError> {
        let digest = digest_of_file(&directory.join("vmlinuz"))?;
        let path = directory.join(Self::FILE);
        let text = serde_json::to_vec(&Self { release, digest }).expect("texts can be written");
        fs::write(&path, text).map_err(at(&path))
    }
}

impl Kernel {
    /// Prepares the kernel that was chosen. It is fetched and unpacked if the cache does not have it.
    ///
    /// # Errors
    /// If the kernel is not available.
    pub fn prepare(
        choice: &KernelChoice,
        cache: &Cache,
        archive: &Archive,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Self, LabError> {
        match choice {
            KernelChoice::Newest(flavour) => {
                let kernel = Self::packaged(Suite::Backports, *flavour, cache, archive, progress, stop)?;
                kernel.must_have("CONFIG_SCHED_CLASS_EXT")?;
                Ok(kernel)
            }
            KernelChoice::Stable(flavour) => {
                Self::packaged(Suite::Stable, *flavour, cache, archive, progress, stop)
            }
            KernelChoice::Older(flavour) => {
                Self::packaged(Suite::Stable, *flavour, cache, &archive.older()?, progress, stop)
            }
            KernelChoice::File(path) => Self::file(path, Path::new("/")),
            KernelChoice::Built(variant) => Self::open(&build::find(cache, variant)?),
        }
    }

    fn packaged(
        suite: Suite,
        flavour: Flavour,
        cache: &Cache,
        archive: &Archive,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Self, LabError> {
        let is_kernel = |package: &Package| is_kernel_package(package.name());
        let packages = archive.fetch(suite, &[flavour.package()], progress, stop, is_kernel)?;
        let mut parts = vec![code_of(include_str!("kernel.rs"))];
        parts.extend(packages.iter().map(|(package, _)| format!("{} {}", package.file, package.checksum)));
        let key = key_of(parts.iter().map(String::as_str));
        let directory = cache.entry("kernels", &key, stop, |directory| {
            progress.tell(Event::Step("unpacking the kernel"));
            let tree = directory.join("tree");
            fs::create_dir(&tree).map_err(at(&tree))?;
            for (_, deb) in &packages {
                run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&tree), stop)?;
            }
            arrange(&tree, directory)
        })?;
        Self::open(&directory)
    }

    fn open(directory: &Path) -> Result<Self, LabError> {
        let path = directory.join(Description::FILE);
        let text = fs::read(&path).map_err(at(&path))?;
        let Description { release, digest } = serde_json::from_slice(&text)
            .map_err(|error| LabError::Kernel(format!("{}: {error}", path.display())))?;
        Ok(Self {
            release,
            digest,
            image: directory.join("vmlinuz"),
            config: Some(directory.join("config")),
            modules: directory.join("modules"),
        })
    }

    /// Prepares the kernel of a file. Its modules and configuration are looked for beside the file, in the
    /// tree of the unpacked package or of the build to which the file belongs, and in this machine's own
    /// directories (below `root`).
    fn file(path: &Path, root: &Path) -> Result<Self, LabError> {
        let release = release_of(path)?;
        let home = path.parent().unwrap_or(Path::new(""));
        let (tree, build) = (home.join(".."), home.join("../../.."));
        let homes = [tree.join("usr/lib/modules"), tree.join("lib/modules"), root.join("lib/modules")];
        let mut places: Vec<PathBuf> = homes.iter().map(|home| home.join(&release)).collect();
        places.insert(0, home.join("modules"));
        let modules = places.into_iter().find(|place| place.is_dir());
        let modules = modules.unwrap_or_else(|| root.join("lib/modules").join(&release));
        let name = format!("config-{release}");
        let places = [
            home.join(&name),
            home.join("config"),
            root.join("boot").join(&name),
            modules.join("config"),
            build.join(".config"),
        ];
        let config = places.into_iter().find(|place| place.is_file());
        Ok(Self { release, digest: digest_of_file(path)?, image: path.to_owned(), config, modules })
    }

    /// The kernel's modules.
    pub(crate) fn modules(&self) -> Result<Modules, LabError> {
        Modules::open(&self.modules)
    }

    /// The value of an option in the kernel's configuration; `None` if it is not known.
    pub fn option(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.config.as_ref()?).ok()?;
        option_in(&text, name)
    }

    /// Checks that a sched_ext scheduler can be loaded, as far as the kernel's configuration is known.
    ///
    /// # Errors
    /// If the kernel has no sched_ext. The error names the scheduler.
    pub(crate) fn must_take(&self, scheduler: &Path) -> Result<(), LabError> {
        const OPTION: &str = "CONFIG_SCHED_CLASS_EXT";
        if self.config.is_none() || self.option(OPTION).as_deref() == Some("y") {
            return Ok(());
        }
        Err(LabError::Kernel(format!(
            "the kernel {} has no sched_ext ({OPTION}), so {} cannot run on it: choose another kernel (--kernel newest)",
            self.release,
            scheduler.display()
        )))
    }

    fn must_have(&self, option: &str) -> Result<(), LabError> {
        match self.option(option).as_deref() {
            Some("y" | "m") => Ok(()),
            _ => Err(LabError::Kernel(format!(
                "the newest kernel of the archive ({}) has no {option}: is its backports suite configured?",
                self.release
            ))),
        }
    }
}

fn option_in(config: &str, name: &str) -> Option<String> {
    config
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.trim_matches('"').to_owned()))
}

/// Whether a package contains a part of one kernel. Other packages only depend on the newest
/// kernel, or install it.
fn is_kernel_package(name: &str) -> bool {
    ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"]
        .iter()
        .filter_map(|prefix| name.strip_prefix(prefix))
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Moves the image, the configuration and the modules out of an unpacked package, from wherever its
/// release keeps them.
fn arrange(tree: &Path, directory: &Path) -> Result<(), LabError> {
    let homes = [tree.join("usr/lib/modules"), tree.join("lib/modules")];
    let home = homes.iter().find(|home| home.is_dir());
    let release_directory = home
        .and_then(|home| fs::read_dir(home).ok()?.next()?.ok())
        .ok_or_else(|| LabError::Kernel("the kernel's packages hold no modules".to_owned()))?;
    let release = release_directory.file_name().to_string_lossy().into_owned();
    for name in ["vmlinuz", "config"] {
        let places =
            [release_directory.path().join(name), tree.join("boot").join(format!("{name}-{release}"))];
        let Some(found) = places.iter().find(|place| place.is_file()) else {
            return Err(LabError::Kernel(format!("the packages of the kernel {release} hold no {name}")));
        };
        let to = directory.join(name);
        fs::rename(found, &to).map_err(at(&to))?;
    }
    let modules = directory.join("modules");
    fs::rename(release_directory.path(), &modules).map_err(at(&modules))?;
    fs::remove_dir_all(tree).map_err(at(tree))?;
    Description::write(directory, release)
}

/// The release that a bootable image gives as its own (in the field `kernel_version` of the boot protocol).
pub(crate) fn release_of(path: &Path) -> Result<String, LabError> {
    let mut file = File::open(path).map_err(at(path))?;
    let mut start = vec![0; 0x210];
    let not_bootable = || {
        LabError::Kernel(format!("{} is no bootable x86 kernel image (bzImage, `vmlinuz`)", path.display()))
    };
    file.read_exact(&mut start).map_err(|_| not_bootable())?;
    if start[0x202..0x206] != *b"HdrS" {
        return Err(not_bootable());
    }
    let offset = u64::from(u16::from_le_bytes([start[0x20e], start[0x20f]])) + 0x200;
    let mut text = [0; 128];
    file.seek(SeekFrom::Start(offset)).map_err(at(path))?;
    file.read_exact(&mut text).map_err(|_| not_bootable())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split([' ', '\0']).next().filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(not_bootable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_kernel_are_told_from_packages_that_lead_to_it() {
        for name in
            ["linux-image-7.3.4+deb13-cloud-amd64", "linux-binary-7.3.4", "linux-modules-6.12.1-rt-amd64"]
        {
            assert!(is_kernel_package(name), "{name}");
        }
        for name in ["linux-image-cloud-amd64", "linux-base", "libc6", "linux-headers-7.3"] {
            assert!(!is_kernel_package(name), "{name}");
        }
    }

    #[test]
    fn a_choice_reads_back_as_it_is_shown() {
        for (name, choice) in CHOICES {
            assert_eq!(name.parse::<KernelChoice>().expect("it is known"), choice);
            assert_eq!(choice.to_string(), name);
        }
        assert_eq!(
            "./vmlinuz".parse::<KernelChoice>().expect("a path"),
            KernelChoice::File("./vmlinuz".into())
        );
        for name in ["100hz", "20000hz-periodic", "100hz-firm"] {
            let choice: KernelChoice = name.parse().expect("it can be built");
            assert_eq!(choice.to_string(), name);
        }
        let error = "2000hz".parse::<KernelChoice>().expect_err("no such rate").to_string();
        assert!(error.contains("the rates are 50, 100,"), "{error}");
        let error = "neewst".parse::<KernelChoice>().expect_err("a mistake").to_string();
        assert!(error.contains("stable-rt"), "{error}");
    }

    /// Writes a file that claims to be a kernel of this release.
    fn write_image(path: &Path, release: &str) {
        let mut image = vec![0_u8; 0x600];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x300_u16.to_le_bytes());
        image[0x500..0x500 + release.len()].copy_from_slice(release.as_bytes());
        fs::write(path, &image).expect("it can be written");
    }

    #[test]
    fn a_file_s_modules_and_configuration_are_found_in_its_tree() {
        let root = tempfile::tempdir().expect("a directory");
        let (boot, modules) = (root.path().join("tree/boot"), root.path().join("tree/lib/modules/9.8.7-x"));
        fs::create_dir_all(&boot).expect("it can be made");
        fs::create_dir_all(&modules).expect("it can be made");
        let image = boot.join("vmlinuz-9.8.7-x");
        write_image(&image, "9.8.7-x");
        let scheduler = Path::new("scx_mine");
        let kernel = Kernel::file(&image, root.path()).expect("it is a kernel");
        assert_eq!(fs::canonicalize(&kernel.modules).expect("a directory"), modules);
        assert_eq!(kernel.config, None);
        kernel.must_take(scheduler).expect("nothing speaks against it");
        fs::write(boot.join("config-9.8.7-x"), "CONFIG_SMP=y\n").expect("it can be written");
        let kernel = Kernel::file(&image, root.path()).expect("it is a kernel");
        let error = kernel.must_take(scheduler).expect_err("it has no sched_ext").to_string();
        assert!(error.starts_with("the kernel 9.8.7-x has no sched_ext"), "{error}");
        fs::write(boot.join("config-9.8.7-x"), "CONFIG_SCHED_CLASS_EXT=y\n").expect("it can be written");
        kernel.must_take(scheduler).expect("it has it now");
    }

    #[test]
    fn an_option_is_found_by_its_whole_name() {
        let config = "CONFIG_HZ_250=y\nCONFIG_HZ=250\n# CONFIG_NO is not set\nCONFIG_X=\"text\"\n";
        assert_eq!(option_in(config, "CONFIG_HZ").as_deref(), Some("250"));
        assert_eq!(option_in(config, "CONFIG_X").as_deref(), Some("text"));
        assert_eq!(option_in(config, "CONFIG_NO"), None);
    }

    #[test]
    fn a_kernel_image_has_a_release_and_another_file_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("vmlinuz");
        write_image(&path, "9.8.7-x (me) ");
        assert_eq!(release_of(&path).expect("it says so"), "9.8.7-x");
        fs::write(&path, b"#!/bin/sh\n").expect("it can be written");
        assert!(release_of(&path).expect_err("it is no kernel").to_string().contains("bootable"));
    }
}
