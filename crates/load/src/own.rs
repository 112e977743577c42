//! The loads that are code of this crate: one write of 8 MB after the other, and a tree of files that is copied and flushed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::board::Board;
use crate::error::checked;
use crate::options::Share;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// Large writes.
    KernelCpu,
    /// A tree of files.
    FileSystem,
}

impl Own {
    /// What is counted.
    pub(crate) const fn counts(self) -> &'static str {
        match self {
            Self::KernelCpu => "writes of 8 MB",
            Self::FileSystem => "copied files",
        }
    }

    /// How many processes it has.
    pub(crate) const fn processes(self, share: &Share) -> u64 {
        match self {
            Self::KernelCpu => share.workers,
            Self::FileSystem => 1,
        }
    }

    /// Works in the current directory until something fails.
    pub(crate) fn work(self, worker: u64, share: &Share, board: &Board) -> io::Error {
        let failed = match self {
            Self::KernelCpu => write_on(worker, board),
            Self::FileSystem => copy_on(share.disk_bytes, board),
        };
        match failed {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }
}

/// What never is.
enum Never {}

/// "A large 8 MB memory buffer to a file with a single `write` system call" (Goel and others 2002, section 4.2.1).
const BUFFER_BYTES: usize = 8_000_000;

fn write_on(worker: u64, board: &Board) -> io::Result<Never> {
    let file = File::create(format!("buffer-{worker}"))?;
    let buffer = vec![0x5a; BUFFER_BYTES];
    board.begin();
    loop {
        // A short write is one that a full disk cut; the next says so.
        let written = file.write_at(&buffer, 0)?;
        if written < buffer.len() {
            file.write_all_at(&buffer[written..], written as u64)?;
        }
        board.count();
    }
}

/// The tree of the paper: files, and bytes in all of them.
const TREE: (u64, u64) = (13_000, 180_000_000);
/// Files in a directory, about as many as a kernel's source has.
const FILES_IN_DIRECTORY: u64 = 20;

/// The tree's size where it and its copy may take so much disk space: files, and bytes in each. A file system gives space by
/// blocks, of which one is half empty in the mean.
fn tree_for(disk_bytes: u64) -> (u64, u64) {
    let file_bytes = TREE.1 / TREE.0;
    let space = disk_bytes / 2 * 9 / 10;
    ((space / (file_bytes + 4096)).min(TREE.0).max(1), file_bytes)
}

fn copy_on(disk_bytes: u64, board: &Board) -> io::Result<Never> {
    let (files, file_bytes) = tree_for(disk_bytes);
    let (tree, copy) = (Path::new("tree"), Path::new("copy"));
    make_tree(tree, files, file_bytes as usize)?;
    let home = File::open(".")?;
    board.begin();
    loop {
        copy_tree(tree, copy, &|| board.count())?;
        // SAFETY: the descriptor is open.
        checked(unsafe { libc::syncfs(home.as_raw_fd()) })?;
        fs::remove_dir_all(copy)?;
    }
}

/// Files whose bytes differ, so that no file system stores them once.
fn make_tree(tree: &Path, files: u64, file_bytes: usize) -> io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..files {
        let directory = tree.join((number / FILES_IN_DIRECTORY).to_string());
        if number % FILES_IN_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut bytes = Vec::with_capacity(file_bytes + 8);
        while bytes.len() < file_bytes {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        bytes.truncate(file_bytes);
        File::create(directory.join(number.to_string()))?.write_all(&bytes)?;
    }
    Ok(())
}

/// Through memory, as `cp` did then: by reads and writes, not by having the file system share blocks.
fn copy_tree(from: &Path, to: &Path, count: &dyn Fn()) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &place, count)?;
            continue;
        }
        let (mut source, mut target) = (File::open(entry.path())?, File::create(place)?);
        let mut buffer = [0; 65536];
        loop {
            let read = source.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            target.write_all(&buffer[..read])?;
        }
        count();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_the_paper_s_where_there_is_space_and_smaller_where_not() {
        let (files, bytes) = tree_for(1 << 30);
        assert_eq!(files, 13_000);
        assert!((170_000_000..=180_000_000).contains(&(files * bytes)));
        let (files, bytes) = tree_for(64 << 20);
        assert!(files > 1000 && 2 * files * (bytes + 4096) <= 64 << 20, "{files} files of {bytes} bytes");
    }

    #[test]
    fn a_copied_tree_holds_the_same_bytes() {
        let home = tempfile::tempdir().expect("a directory");
        let (tree, copy) = (home.path().join("tree"), home.path().join("copy"));
        make_tree(&tree, 45, 1000).expect("it can be made");
        let copied = std::cell::Cell::new(0);
        copy_tree(&tree, &copy, &|| copied.set(copied.get() + 1)).expect("it can be copied");
        assert_eq!(copied.get(), 45);
        let read = |place: &Path| fs::read(place.join("2/44")).expect("the last file");
        assert_eq!(read(&tree), read(&copy));
        assert_ne!(read(&tree), fs::read(tree.join("2/43")).expect("the one before"));
    }
}
