//! Root file systems for the guest. They are put together from packages, and the installation scripts of the
//! packages are not run.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::cache::{Cache, digest_of_file, key_of};
use crate::command::{run, spawn};
use crate::cpio::{self, MTIME_S};
use crate::error::{LabError, at};
use crate::fetch::{Archive, Suite};
use crate::progress::{Event, Progress, Stop};
use crate::recipe::code_of;

/// The packages of every image: the C library, the libraries that Spry's own programs and sched_ext
/// schedulers need, and a shell.
const BASE: [&str; 7] =
    ["busybox-static", "libc-bin", "libc6", "libelf1t64", "libgcc-s1", "libzstd1", "zlib1g"];
/// The largest image that is unpacked into the guest's memory, MiB. A larger image becomes a file
/// system of its own.
const SMALL_MIB: u64 = 64;
/// Directories that are left out of an image, because nothing in the lab reads them.
const LEFT_OUT: [&str; 7] = [
    "./usr/share/doc/*",
    "./usr/share/man/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/lintian/*",
    "./usr/share/bug/*",
    "./usr/share/help/*",
];
/// The documentation of packages with this in their files' names is not left out: it is all that they have.
const EXAMPLES: &str = "-examples_";
/// Directories on which the guest mounts file systems, or which it expects.
const MOUNT_POINTS: [&str; 17] = [
    "boot",
    "dev",
    "etc",
    "home",
    "proc",
    "results",
    "root",
    "run",
    "scratch",
    "spry",
    "sys",
    "tmp",
    "var/log",
    "var/tmp",
    "var/lib/xkb",
    "usr/lib/modules",
    SOURCES,
];
/// The directory of the image with unpacked source packages, in which the runner searches for them.
const SOURCES: &str = "usr/src";
/// Links that the installation scripts of packages would make, and their possible targets. The first target
/// that the image has is taken.
const ALTERNATIVES: [(&str, &[&str]); 8] = [
    ("awk", &["mawk", "gawk"]),
    ("c++", &["g++"]),
    ("cc", &["gcc"]),
    ("editor", &["vim.basic", "vim.tiny", "nano"]),
    ("emacs", &["emacs-gtk", "emacs-lucid", "emacs-nox"]),
    ("vi", &["vim.basic", "vim.tiny"]),
    ("view", &["vim.basic", "vim.tiny"]),
    ("x-terminal-emulator", &["xterm"]),
];
/// The directories from which installation scripts would copy files, each with the directory of the copies.
/// LibreOffice does not start without its directory.
const COPIES: [(&str, &str); 1] = [("usr/lib/libreoffice/share/.registry", "etc/libreoffice/registry")];
/// Links that the installation of a base system makes. Published schedulers put their sockets
/// below `/var/run`.
const LINKS: [(&str, &str); 2] = [("var/run", "/run"), ("var/lock", "/run/lock")];
/// The programs that installation scripts and triggers would run. Each is run only if the image has it.
const TRIGGERS: [&[&str]; 8] = [
    &["/usr/sbin/ldconfig"],
    &["/usr/sbin/update-fonts-dir", "--x11r7-layout", "misc"],
    &["/usr/sbin/update-fonts-alias", "--x11r7-layout", "misc"],
    &["/usr/bin/fc-cache", "-f"],
    &["/usr/bin/glib-compile-schemas", "/usr/share/glib-2.0/schemas"],
    &["/usr/lib/x86_64-linux-gnu/glib-2.0/glib-compile-schemas", "/usr/share/glib-2.0/schemas"],
    &["/usr/lib/x86_64-linux-gnu/gdk-pixbuf-2.0/gdk-pixbuf-query-loaders", "--update-cache"],
    &["/usr/bin/update-mime-database", "/usr/share/mime"],
];
const FILES: [(&str, &str); 8] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\ntty:x:5:\nvideo:x:44:\ninput:x:104:\nnogroup:x:65534:\n"),
    ("etc/hostname", "lab\n"),
    ("etc/hosts", "127.0.0.1 localhost lab\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("etc/machine-id", "00000000000000000000000000000001\n"),
    ("etc/shells", "/bin/sh\n"),
    ("etc/profile", "PATH=/spry/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"),
];

/// A root file system with which a guest can boot.
#[derive(Clone, Debug)]
pub struct Image {
    /// The hash of the image's bytes.
    pub digest: String,
    /// The name, version and architecture of every package in the image.
    pub packages: Vec<String>,
    pub(crate) content: Content,
    /// The path of busybox; its shell runs the first steps of the guest.
    pub(crate) busybox: PathBuf,
    libraries: BTreeSet<String>,
    glibc: (u32, u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// An archive that the kernel unpacks. Its files lie below the directory `guest`.
    Cpio(PathBuf),
    /// A file system that is put into a region of the guest's memory; its size is in whole MiB.
    Erofs { path: PathBuf, mib: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    digest: String,
    packages: Vec<String>,
    libraries: BTreeSet<String>,
    glibc: (u32, u32),
}

impl Image {
    /// The image of these packages and of every image's packages, with the unpacked source of these source
    /// packages below `/usr/src`. The image is built if the cache does not have it.
    ///
    /// # Errors
    /// If packages are not available, or this machine lacks a tool of the build.
    pub fn prepare(
        names: &BTreeSet<String>,
        sources: &BTreeSet<String>,
        cache: &Cache,
        archive: &Archive,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Self, LabError> {
        let all: BTreeSet<&str> = BASE.into_iter().chain(names.iter().map(String::as_str)).collect();
        let all: Vec<&str> = all.into_iter().collect();
        let packages = archive.fetch(Suite::Stable, &all, progress, stop, |_| true)?;
        let sources = archive.sources(sources, progress, stop)?;
        let recipe = [include_str!("image.rs"), include_str!("cpio.rs")].map(code_of);
        let files = packages.iter().map(|(package, _)| format!("{} {}", package.file, package.checksum));
        let trees = sources.iter().map(|source| format!("{} {}", source.name, source.digest));
        let parts: Vec<String> = recipe.into_iter().chain(files).chain(trees).collect();
        let key = key_of(parts.iter().map(String::as_str));
        let directory = cache.entry("images", &key, stop, |directory| {
            let debs: Vec<&Path> = packages.iter().map(|(_, path)| path.as_path()).collect();
            let glibc = packages.iter().find(|(package, _)| package.name() == "libc6");
            let glibc = glibc.and_then(|(package, _)| version_pair(&package.version()));
            let names = packages.iter().map(|(package, _)| package.file.clone()).collect();
            let tree = directory.join("tree");
            skeleton(&tree)?;
            unpack(&tree, &debs, progress, stop)?;
            sources.iter().try_for_each(|source| source.unpack_below(&tree.join(SOURCES), stop))?;
            build(directory, names, glibc.unwrap_or_default(), progress, stop)
        })?;
        Self::open(&directory)
    }

    fn open(directory: &Path) -> Result<Self, LabError> {
        let path = directory.join("image.json");
        let text = fs::read(&path).map_err(at(&path))?;
        let description: Description =
            serde_json::from_slice(&text).map_err(|error| at(&path)(std::io::Error::other(error)))?;
        let erofs = directory.join("root.erofs");
        let content = match fs::metadata(&erofs) {
            Ok(metadata) => Content::Erofs { path: erofs, mib: metadata.len().div_ceil(16 << 20) * 16 },
            Err(_) => Content::Cpio(directory.join("root.cpio")),
        };
        let Description { digest, packages, libraries, glibc } = description;
        Ok(Self { digest, packages, content, busybox: directory.join("busybox"), libraries, glibc })
    }

    /// Checks whether a program of this machine could run in the image.
    ///
    /// # Errors
    /// If the image lacks a part that the program needs.
    pub fn check(&self, binary: &Path) -> Result<(), LabError> {
        let Some(needs) = crate::elf::needs(binary).map_err(at(binary))? else { return Ok(()) };
        let refuse = |problem| Err(LabError::Binary { binary: binary.to_owned(), problem });
        let missing = needs.libraries.iter().find(|name| !self.libraries.contains(*name));
        if let Some(name) = missing {
            return refuse(format!("it needs {name}, which the image lacks: add the package that holds it"));
        }
        match needs.glibc {
            Some((major, minor)) if (major, minor) > self.glibc => refuse(format!(
                "it was built with C library {major}.{minor}, and the image's is {}.{}: build it on the \
                 distribution's newest release or an older one",
                self.glibc.0, self.glibc.1
            )),
            _ => Ok(()),
        }
    }
}

/// The first two numbers of a package's version.
fn version_pair(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Makes the image of an unpacked tree.
fn build(
    directory: &Path,
    packages: Vec<String>,
    glibc: (u32, u32),
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<(), LabError> {
    let tree = directory.join("tree");
    progress.tell(Event::Step("setting the image up"));
    settle(&tree, stop)?;
    progress.tell(Event::Step("writing the image"));
    let busybox = directory.join("busybox");
    fs::copy(tree.join("usr/bin/busybox"), &busybox).map_err(at(&busybox))?;
    let libraries = libraries(&tree)?;
    let written = if size_of(&tree)? <= SMALL_MIB << 20 {
        let path = directory.join("root.cpio");
        let mut archive = cpio::Archive::new();
        archive.tree("guest", &tree).map_err(at(&tree))?;
        let mut file = std::io::BufWriter::new(File::create(&path).map_err(at(&path))?);
        archive.write(&mut file).map_err(at(&path))?;
        std::io::Write::flush(&mut file).map_err(at(&path))?;
        path
    } else {
        let path = directory.join("root.erofs");
        let mut mkfs = Command::new("mkfs.erofs");
        mkfs.arg(format!("-T{MTIME_S}")).args(["-U", "00000000-0000-4000-8000-000000000001", "--all-root"]);
        run(mkfs.args(["--quiet"]).arg(&path).arg(&tree), stop)?;
        path
    };
    fs::remove_dir_all(&tree).map_err(at(&tree))?;
    let description = Description { digest: digest_of_file(&written)?, packages, libraries, glibc };
    let path = directory.join("image.json");
    fs::write(&path, serde_json::to_vec(&description).expect("texts can be written")).map_err(at(&path))
}

/// Makes the directories and links that packages expect.
fn skeleton(tree: &Path) -> Result<(), LabError> {
    for name in ["usr/bin", "usr/sbin", "usr/lib", "usr/lib64"].iter().chain(&MOUNT_POINTS) {
        let path = tree.join(name);
        fs::create_dir_all(&path).map_err(at(&path))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), tree.join(name)).map_err(at(tree))?;
    }
    Ok(())
}

fn unpack(tree: &Path, debs: &[&Path], progress: &dyn Progress, stop: &Stop) -> Result<(), LabError> {
    progress.tell(Event::Step("unpacking packages"));
    let size = |path: &&Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let total = debs.iter().map(size).sum();
    let mut done = 0;
    for deb in debs {
        progress.tell(Event::Bytes { done, total });
        let mut unpacker = Command::new("dpkg-deb");
        unpacker.arg("--fsys-tarfile").arg(deb).stdout(Stdio::piped());
        let mut unpacker = spawn(&mut unpacker)?;
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(tree).args(["-xpf", "-", "--keep-directory-symlink", "--no-same-owner"]);
        if !deb.to_string_lossy().contains(EXAMPLES) {
            tar.args(LEFT_OUT.map(|pattern| format!("--exclude={pattern}")));
        }
        let Some(pipe) = unpacker.child.stdout.take() else { unreachable!("it was asked for") };
        run_from(tar.stderr(Stdio::piped()), pipe, deb, stop)?;
        let status = unpacker.child.wait().map_err(at(deb))?;
        if !status.success() {
            return Err(LabError::Tool {
                command: format!("dpkg-deb --fsys-tarfile {}", deb.display()),
                status: status.to_string(),
                stderr: String::new(),
            });
        }
        done += size(deb);
    }
    Ok(())
}

/// Runs a program that reads its standard input from a pipe.
fn run_from(
    command: &mut Command,
    pipe: std::process::ChildStdout,
    what: &Path,
    stop: &Stop,
) -> Result<(), LabError> {
    let mut running = spawn(command.stdin(pipe))?;
    let mut stderr = String::new();
    if let Some(mut pipe) = running.child.stderr.take() {
        // The pipe ends when the program ends. Output that is not text is ignored.
        let _ = std::io::Read::read_to_string(&mut pipe, &mut stderr);
    }
    let status = running.child.wait().map_err(at(what))?;
    if stop.is_requested() {
        return Err(LabError::Interrupted);
    }
    if stderr.contains("No space left on device") {
        return Err(LabError::DiskFull { path: what.to_owned(), needed_mib: 0 });
    }
    if !status.success() {
        let command = format!("tar, unpacking {}", what.display());
        return Err(LabError::Tool { command, status: status.to_string(), stderr });
    }
    Ok(())
}

/// Does the work of the packages' installation scripts: makes links, caches and a few files. If the image has
/// no shell, scripts find busybox's.
fn settle(tree: &Path, stop: &Stop) -> Result<(), LabError> {
    for (name, text) in FILES {
        let path = tree.join(name);
        fs::write(&path, text).map_err(at(&path))?;
    }
    for (link, targets) in ALTERNATIVES {
        let bin = tree.join("usr/bin");
        let is_there = |name: &&&str| bin.join(name).symlink_metadata().is_ok();
        let target = targets.iter().find(is_there);
        if let Some(target) = target.filter(|_| bin.join(link).symlink_metadata().is_err()) {
            symlink(target, bin.join(link)).map_err(at(&bin))?;
        }
    }
    for (link, target) in LINKS {
        let link = tree.join(link);
        if link.symlink_metadata().is_err() {
            symlink(target, &link).map_err(at(&link))?;
        }
    }
    for (from, to) in COPIES {
        copy_files(&tree.join(from), &tree.join(to))?;
    }
    applets(tree, stop)?;
    // Programs accept a cache of fonts only if the directories of the fonts still have the times that they
    // had when the cache was made.
    pin_directories(&tree.join("usr/share/fonts"))?;
    for trigger in TRIGGERS {
        if tree.join(trigger[0].trim_start_matches('/')).is_file() {
            in_root(tree, trigger, stop)?;
        }
    }
    pin_directories(&tree.join("usr/share/fonts"))?;
    // This file contains numbers of this machine's file system, which would make each build different.
    let own = tree.join("var/cache/ldconfig");
    if own.exists() { fs::remove_dir_all(&own).map_err(at(&own)) } else { Ok(()) }
}

/// Copies the files of a directory, if the directory exists.
fn copy_files(from: &Path, to: &Path) -> Result<(), LabError> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in entries {
        let entry = entry.map_err(at(from))?;
        let copy = to.join(entry.file_name());
        fs::copy(entry.path(), &copy).map_err(at(&copy))?;
    }
    Ok(())
}

/// Makes links to busybox under the names of its programs, where no package has a program of that name. `vi`
/// gets no link, because people use another `vi`.
fn applets(tree: &Path, stop: &Stop) -> Result<(), LabError> {
    let list = in_root(tree, &["/bin/busybox", "--list"], stop)?;
    for name in String::from_utf8_lossy(&list).lines().filter(|name| !matches!(*name, "vi" | "busybox")) {
        let places = ["usr/bin", "usr/sbin"].map(|place| tree.join(place).join(name));
        if places.iter().all(|place| place.symlink_metadata().is_err()) {
            symlink("/bin/busybox", &places[0]).map_err(at(&places[0]))?;
        }
    }
    Ok(())
}

/// Runs a program of the image with the image as its root. An ordinary user does this in a user namespace.
pub(crate) fn in_root(tree: &Path, argv: &[&str], stop: &Stop) -> Result<Vec<u8>, LabError> {
    let is_root = spry_sys::process::is_root();
    let mut command = Command::new(if is_root { "chroot" } else { "unshare" });
    if !is_root {
        command.args(["--map-root-user", "chroot"]);
    }
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
    run(command.env("SOURCE_DATE_EPOCH", MTIME_S.to_string()).arg(tree).args(argv), stop)
}

fn pin_directories(path: &Path) -> Result<(), LabError> {
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(at(path))?;
        if entry.file_type().map_err(at(path))?.is_dir() {
            pin_directories(&entry.path())?;
        }
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(MTIME_S));
    File::open(path).and_then(|directory| directory.set_modified(time)).map_err(at(path))
}

/// The names of the shared libraries in the directories that the dynamic linker searches.
fn libraries(tree: &Path) -> Result<BTreeSet<String>, LabError> {
    let mut found = BTreeSet::new();
    for place in ["usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu"] {
        let place = tree.join(place);
        for entry in fs::read_dir(&place).into_iter().flatten() {
            let name = entry.map_err(at(&place))?.file_name().to_string_lossy().into_owned();
            if name.contains(".so") {
                found.insert(name);
            }
        }
    }
    Ok(found)
}

fn size_of(path: &Path) -> Result<u64, LabError> {
    let mut size = 0;
    for entry in fs::read_dir(path).map_err(at(path))? {
        let entry = entry.map_err(at(path))?;
        let metadata = entry.metadata().map_err(at(path))?;
        if metadata.is_dir() {
            // A package may have a directory without permissions for its owner. Here the owner must be able
            // to read it.
            if metadata.permissions().mode() & 0o700 != 0o700 {
                fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755)).map_err(at(path))?;
            }
            size += size_of(&entry.path())?;
        } else if metadata.is_file() {
            size += metadata.len();
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(libraries: &[&str], glibc: (u32, u32)) -> Image {
        Image {
            digest: String::new(),
            packages: Vec::new(),
            content: Content::Cpio(PathBuf::new()),
            busybox: PathBuf::new(),
            libraries: libraries.iter().map(|&name| name.to_owned()).collect(),
            glibc,
        }
    }

    #[test]
    fn a_program_is_refused_if_the_image_lacks_its_libraries() {
        let own = std::env::current_exe().expect("this program has a path");
        let all = crate::elf::needs(&own).expect("it can be read").expect("it is an ELF file").libraries;
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        image(&all, (2, 99)).check(&own).expect("everything is there");
        let lacking = image(&[], (2, 99)).check(&own).expect_err("libraries are missing").to_string();
        assert!(lacking.contains("add the package"), "{lacking}");
        let old = image(&all, (2, 2)).check(&own).expect_err("the C library is too old").to_string();
        assert!(old.contains("the image's is 2.2"), "{old}");
    }

    #[test]
    fn the_c_library_s_version_is_read_from_its_package() {
        assert_eq!(version_pair("2.41-12+deb13u4"), Some((2, 41)));
        assert_eq!(version_pair("none"), None);
    }
}
