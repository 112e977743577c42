//! Finds the parts that the lab lacks on this machine, and names the remedies.

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::build::{self, Variant};
use crate::cache::Cache;
use crate::command::{found, package_of};
use crate::emulator::Emulator;
use crate::fetch::Archive;
use crate::image::in_root;
use crate::lab::LabOptions;
use crate::progress::Stop;

/// The disk space for packages, kernels, images and the results of a run, MiB.
const DISK_MIB: u64 = 6 * 1024;
/// The memory that two virtual machines with large images need, MiB.
const MEMORY_MIB: u64 = 8 * 1024;
/// The programs that every use of the lab needs.
const PROGRAMS: [&str; 8] = ["apt-get", "dpkg-deb", "tar", "xz", "zstd", "mkfs.erofs", "chroot", "unshare"];
/// The programs that are part of Spry.
const OWN: [&str; 4] = ["spry-guest", "spry-runner", "spry", "spry-eyes"];

/// The result of one check of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object and the result of the check, in words.
    pub what: String,
    /// Whether the result is good enough for the lab.
    pub state: State,
    /// The user's remedy, if the result is not good enough.
    pub remedy: Option<String>,
}

/// Whether a checked part is good enough for the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is good enough.
    Good,
    /// It is good enough for some uses of the lab only.
    Partly,
    /// The lab does not work with it.
    Bad,
}

impl Finding {
    fn good(what: impl Into<String>) -> Self {
        Self { what: what.into(), state: State::Good, remedy: None }
    }

    fn bad(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), state: State::Bad, remedy: Some(remedy.into()) }
    }

    fn partly(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), state: State::Partly, remedy: Some(remedy.into()) }
    }
}

/// Checks everything that the lab needs. It changes nothing but the cache.
pub fn doctor(options: &LabOptions, stop: &Stop) -> Vec<Finding> {
    let mut findings = programs();
    findings.push(inside(stop));
    let root = options.cache.clone().unwrap_or_else(Cache::default_root);
    match Cache::open(&root) {
        Ok(cache) => {
            findings.push(emulator(&cache, stop));
            findings.push(disk(cache.root()));
            findings.extend(archive(&cache, options.mirror.as_deref(), stop));
            findings.extend(built_kernels(&cache));
        }
        Err(error) => findings.push(Finding::bad(
            format!("the cache: {error}"),
            "set SPRY_CACHE to a directory that you may write to",
        )),
    }
    findings.push(memory());
    findings.extend(own_programs(options));
    findings.push(build_tools(stop));
    findings
}

fn programs() -> Vec<Finding> {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| found(program).is_none()).collect();
    if missing.is_empty() {
        return vec![Finding::good("every program that the lab starts is there")];
    }
    let packages: Vec<&str> = missing.iter().map(|program| package_of(program)).collect();
    vec![Finding::bad(
        format!("missing: {}", missing.join(", ")),
        format!("apt-get install {}", packages.join(" ")),
    )]
}

/// Checks the emulator, which the lab builds itself, once.
fn emulator(cache: &Cache, stop: &Stop) -> Finding {
    let missing = Emulator::missing(stop);
    if missing.is_empty() {
        return Finding::good("the lab's emulator can be built");
    }
    let remedy = format!("apt-get install {}", missing.join(" "));
    if cache.root().join("emulators").is_dir() {
        return Finding::partly(
            "the lab's emulator cannot be built anew; the one that was built stays",
            remedy,
        );
    }
    Finding::bad("the lab's emulator cannot be built", remedy)
}

/// Checks whether a program can be run inside an image that is being built.
fn inside(stop: &Stop) -> Finding {
    match in_root(Path::new("/"), &["true"], stop) {
        Ok(_) => Finding::good("images can be built"),
        Err(error) => Finding::bad(
            format!("images cannot be built, since this user may make no user namespace: {error}"),
            "allow it (sysctl kernel.unprivileged_userns_clone=1, \
             kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
        ),
    }
}

fn disk(root: &Path) -> Finding {
    let free_mib = free_mib(root);
    let what = format!("{free_mib} MiB free for the cache at {}", root.display());
    if free_mib >= DISK_MIB {
        return Finding::good(what);
    }
    Finding::partly(
        format!("{what}; images of large programs take up to {DISK_MIB} MiB"),
        "free some, or set SPRY_CACHE to a directory on another disk",
    )
}

/// The disk space that an ordinary user may still fill, MiB.
pub(crate) fn free_mib(path: &Path) -> u64 {
    spry_sys::file::free_bytes(path).unwrap_or(0) >> 20
}

fn memory() -> Finding {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mib = available_mib(&text).unwrap_or(0);
    let what = format!("{mib} MiB of memory available");
    if mib >= MEMORY_MIB {
        return Finding::good(what);
    }
    Finding::partly(
        format!("{what}; two machines side by side with large images take {MEMORY_MIB} MiB"),
        "run fewer at once (--jobs 1)",
    )
}

fn available_mib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib >> 10)
}

fn archive(cache: &Cache, mirror: Option<&str>, stop: &Stop) -> Vec<Finding> {
    let archive = match Archive::open(cache, mirror) {
        Ok(archive) => archive,
        Err(error) => return vec![Finding::bad("the archive of packages", error.to_string())],
    };
    let mut findings = Vec::new();
    let keys: Vec<String> = archive.keyrings().iter().map(|path| path.display().to_string()).collect();
    findings.push(Finding::good(format!("the archive's keys: {}", keys.join(", "))));
    match archive.refresh_quietly(stop) {
        Ok(()) => findings
            .push(Finding::good(format!("the archive answers and its signatures hold: {}", archive.uri()))),
        Err(error) => {
            let remedy = error.to_string();
            let what = format!("the archive {}", archive.uri());
            findings.push(match archive.lists_age() {
                Some(_) => {
                    Finding::partly(format!("{what}; what has been fetched before still works"), remedy)
                }
                None => Finding::bad(what, remedy),
            });
        }
    }
    findings
}

fn built_kernels(cache: &Cache) -> Vec<Finding> {
    let kernel = |hz| match Variant::of(hz).and_then(|variant| build::find(cache, &variant)) {
        Ok(_) => Finding::good(format!("a kernel of {hz} Hz has been built")),
        Err(error) => Finding::partly(format!("a kernel of {hz} Hz"), error.to_string()),
    };
    [100, 1000].map(kernel).into()
}

fn own_programs(options: &LabOptions) -> Vec<Finding> {
    let Some(directory) = options.programs.clone().or_else(|| spry_experiment::programs::directory().ok())
    else {
        return Vec::new();
    };
    let missing: Vec<&str> = OWN.into_iter().filter(|name| !directory.join(name).is_file()).collect();
    if missing.is_empty() {
        return vec![Finding::good(format!("Spry's own programs are in {}", directory.display()))];
    }
    vec![Finding::bad(
        format!("not in {}: {}", directory.display(), missing.join(", ")),
        "cargo build --release builds them all",
    )]
}

fn build_tools(stop: &Stop) -> Finding {
    let missing: Vec<&str> = build::missing(stop).into_iter().map(|(_, package)| package).collect();
    if missing.is_empty() {
        return Finding::good("every program and header that building kernels takes is there");
    }
    Finding::partly(
        "building kernels of other tick rates takes more",
        format!("apt-get install {}", missing.join(" ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_what_the_kernel_calls_so() {
        assert_eq!(available_mib("MemFree: 1 kB\nMemAvailable:   2097152 kB\n"), Some(2048));
    }

    #[test]
    fn every_bad_finding_says_what_to_do() {
        let cache = tempfile::tempdir().expect("a directory");
        let options = LabOptions {
            cache: Some(cache.path().to_owned()),
            mirror: Some("file:/nowhere".to_owned()),
            programs: Some(cache.path().to_owned()),
            ..LabOptions::default()
        };
        let findings = doctor(&options, &Stop::new());
        assert!(findings.iter().any(|finding| finding.state == State::Bad));
        assert!(findings.iter().all(|finding| finding.state == State::Good || finding.remedy.is_some()));
    }
}
