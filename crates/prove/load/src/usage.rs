//! Measures how much memory and disk space loads take, from inside their namespaces.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directories of all processes of the loads in `/proc`.
fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let is_process = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    entries.filter(move |entry| is_process(&entry.file_name())).map(|entry| entry.path())
}

/// The memory of all processes in `/proc`, bytes: their own memory and the memory that they share with each
/// other, without the pages of files.
pub(crate) fn memory_bytes() -> u64 {
    // A process may end while it is measured.
    processes()
        .filter_map(|process| fs::read_to_string(process.join("status")).ok())
        .map(|text| held(&text))
        .sum()
}

fn held(status: &str) -> u64 {
    let parts = ["RssAnon:", "RssShmem:"];
    let figures = status.lines().filter_map(|line| {
        let rest = parts.iter().find_map(|part| line.strip_prefix(part))?;
        rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    figures.sum::<u64>() * 1024
}

/// The disk space of a directory and everything below it, bytes. It includes open files without a name. It
/// does not include other file systems that are mounted below.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    let Ok(found) = fs::symlink_metadata(directory) else { return 0 };
    walk(directory, found.dev()) + nameless(found.dev())
}

/// The disk space of files without a name on a device that processes of the loads hold open. Each
/// file counts once.
fn nameless(device: u64) -> u64 {
    let open = processes().flat_map(|process| fs::read_dir(process.join("fd")).into_iter().flatten());
    let mut files = BTreeMap::new();
    for found in open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok()) {
        if found.nlink() == 0 && found.dev() == device {
            files.insert(found.ino(), found.blocks() * 512);
        }
    }
    files.values().sum()
}

fn walk(directory: &Path, device: u64) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let mut bytes = 0;
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        // Files may be made and removed meanwhile.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if found.dev() != device {
            continue;
        }
        bytes += found.blocks() * 512;
        if found.is_dir() {
            bytes += walk(&path, device);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_files_is_not_counted() {
        assert_eq!(
            held("Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t 300 kB\nRssFile:\t 500 kB\nRssShmem:\t 100 kB\n"),
            400 << 10
        );
        assert_eq!(held("Name:\tkthreadd\n"), 0);
    }

    #[test]
    fn an_open_file_without_a_name_is_counted_once() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("gone");
        fs::write(&path, vec![1; 8 << 20]).expect("it can be written");
        let files = [fs::File::open(&path), fs::File::open(&path)];
        fs::remove_file(&path).expect("it is there");
        let bytes = disk_bytes(home.path());
        assert!((8 << 20..16 << 20).contains(&bytes), "{bytes}");
        drop(files);
    }

    #[test]
    fn a_hole_takes_no_space_and_written_bytes_do() {
        let home = tempfile::tempdir().expect("a directory");
        let file = fs::File::create(home.path().join("hole")).expect("it can be made");
        file.set_len(64 << 20).expect("it can be longer");
        fs::create_dir(home.path().join("inner")).expect("it can be made");
        fs::write(home.path().join("inner/full"), vec![1; 1 << 20]).expect("it can be written");
        let bytes = disk_bytes(home.path());
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
    }
}
