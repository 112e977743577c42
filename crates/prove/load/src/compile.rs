//! Compiles a source again and again, in a file system that is mounted for it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::needs;
use crate::nfs;
use crate::suite::Mount;

/// The file with the output of a load, in the load's directory.
pub(crate) const LOG: &str = "log";
/// How many of the last lines of the output describe the end of the load.
const LAST_LINES: usize = 3;
/// How long a file system in user space may take until it is mounted.
const PATIENCE: Duration = Duration::from_secs(20);

/// Mounts the file system, unpacks and configures the source, then compiles in the current directory
/// until a step fails.
pub(crate) fn work(kind: Mount, source: &Path, jobs: u64, board: &Board) -> io::Error {
    match prepare(kind, source).and_then(|place| build_on(&place, jobs, board)) {
        Ok(()) => io::Error::other("it ended"),
        Err(error) => error,
    }
}

fn prepare(kind: Mount, source: &Path) -> io::Result<PathBuf> {
    let here = std::env::current_dir()?;
    let (below, mounted) = (here.join("below"), here.join("mounted"));
    fs::create_dir(&below)?;
    fs::create_dir(&mounted)?;
    match kind {
        Mount::Nfs => nfs::serve(&below, &mounted)?,
        Mount::Fuse => mount_fuse(&below, &mounted)?,
    }
    let place = mounted.join("source");
    fs::create_dir(&place)?;
    unpack(source, &place)?;
    configure(&place)?;
    Ok(place)
}

/// Mounts a file system that passes every request through a process in user space. The process ends
/// with the namespace.
fn mount_fuse(below: &Path, at: &Path) -> io::Result<()> {
    let program = needs::program("bindfs").ok_or_else(|| io::Error::other("bindfs is missing"))?;
    let mut server = Command::new(program).args(["-f", "--no-allow-other"]).arg(below).arg(at).spawn()?;
    let device = fs::metadata(below)?.dev();
    let began = Instant::now();
    while fs::metadata(at)?.dev() == device {
        if let Some(status) = server.try_wait()? {
            return Err(io::Error::other(format!("bindfs: {status}")));
        }
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other("bindfs mounts nothing"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Copies a directory, or unpacks an archive. From the directory of a source package it unpacks the
/// upstream's archive.
fn unpack(source: &Path, place: &Path) -> io::Result<()> {
    let packed = if source.is_dir() { upstream(source)? } else { Some(source.to_owned()) };
    match packed {
        Some(file) => {
            let mut command = Command::new("tar");
            run(command
                .arg("xf")
                .arg(file)
                .args(["--strip-components=1", "--no-same-owner", "-C"])
                .arg(place))
        }
        None => run(Command::new("cp").arg("-R").arg(source.join(".")).arg(place)),
    }
}

/// The archive of the upstream's source in the directory of a source package; `None` if there is none.
fn upstream(directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        files.push(entry?.path());
    }
    files.sort();
    let is_upstream = |path: &PathBuf| path.file_name().is_some_and(is_upstream_name);
    Ok(files.into_iter().find(is_upstream))
}

fn is_upstream_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.contains(".orig.tar.") && !name.ends_with(".asc")
}

/// Prepares the source for `make`: with a configuration of the kernel's kind, or with the script `configure`.
fn configure(place: &Path) -> io::Result<()> {
    if place.join("configure").exists() && !place.join("Makefile").exists() {
        return run(Command::new("./configure").current_dir(place));
    }
    if !place.join("scripts/kconfig").exists() || place.join(".config").exists() {
        return Ok(());
    }
    // To compile the kernel's smallest configuration takes as long as to compile all of another program.
    let make =
        |target: &str| run(Command::new("make").args(["-s", target]).current_dir(place).stdin(Stdio::null()));
    make("tinyconfig").or_else(|_| make("defconfig"))?;
    // One of busybox's programs does not compile with the headers of Linux 6.8 and later, so it is left out.
    let config = place.join(".config");
    let text = fs::read_to_string(&config)?;
    fs::write(&config, text.replace("\nCONFIG_TC=y\n", "\n# CONFIG_TC is not set\n"))
}

fn build_on(place: &Path, jobs: u64, board: &Board) -> io::Result<()> {
    let log = OpenOptions::new().append(true).open(LOG)?;
    board.begin();
    loop {
        // The output of earlier rounds is useless and must not grow, so it is removed.
        log.set_len(0)?;
        run(Command::new("make").args(["-s", "-j", &jobs.to_string()]).current_dir(place))?;
        board.count();
        run(Command::new("make").args(["-s", "clean"]).current_dir(place))?;
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program}: {status}"))) }
}

/// The last lines of a load's output that are not empty, joined into one line.
pub(crate) fn last_words(directory: &Path) -> Option<String> {
    let mut file = File::open(directory.join(LOG)).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(4096))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    (!last.is_empty()).then(|| last.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_package_s_upstream_file_is_told_from_the_others() {
        let home = tempfile::tempdir().expect("a directory");
        for name in ["a_1.orig.tar.gz.asc", "a_1.dsc", "a_1-1.debian.tar.xz", "a_1.orig.tar.gz"] {
            fs::write(home.path().join(name), "").expect("it can be written");
        }
        let found = upstream(home.path()).expect("it can be read");
        assert_eq!(found, Some(home.path().join("a_1.orig.tar.gz")));
    }

    #[test]
    fn the_last_words_are_the_last_lines_with_any() {
        let home = tempfile::tempdir().expect("a directory");
        assert_eq!(last_words(home.path()), None);
        fs::write(home.path().join(LOG), "first\nsecond\n\nthird\n  no space left  \n\n")
            .expect("it can be written");
        assert_eq!(last_words(home.path()).as_deref(), Some("second; third; no space left"));
    }
}
