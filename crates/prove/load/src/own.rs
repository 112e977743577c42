//! The loads that are code of this crate: the first writes 8 MB again and again, the second copies and
//! flushes a tree of files.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::board::Board;
use crate::options::Share;

/// A load that is code of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnLoad {
    /// Writes a large buffer again and again.
    KernelCpu,
    /// Copies a tree of files again and again.
    FileSystem,
}

impl OwnLoad {
    /// The name of the operations that the load counts.
    pub(crate) const fn counts(self) -> &'static str {
        match self {
            Self::KernelCpu => "writes of 8 MB",
            Self::FileSystem => "copied files",
        }
    }

    /// How many processes the load has.
    pub(crate) const fn processes(self, share: &Share) -> u64 {
        match self {
            Self::KernelCpu => share.workers,
            Self::FileSystem => 1,
        }
    }

    /// Works in the current directory until a step fails.
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

/// A type without values: the function that returns it never returns.
enum Never {}

/// The size of the buffer: "a large 8 MB memory buffer to a file with a single `write` system call" (Goel and
/// others 2002, section 4.2.1).
const BUFFER_BYTES: usize = 8_000_000;

fn write_on(worker: u64, board: &Board) -> io::Result<Never> {
    let file = File::create(format!("buffer-{worker}"))?;
    let buffer = vec![0x5a; BUFFER_BYTES];
    board.begin();
    loop {
        // If the disk is full, this write is cut short, and the next write returns the error.
        let written = file.write_at(&buffer, 0)?;
        if written < buffer.len() {
            file.write_all_at(&buffer[written..], written as u64)?;
        }
        board.count();
    }
}

/// The tree of the paper: the number of files, and the bytes of all files together.
const TREE: (u64, u64) = (13_000, 180_000_000);
/// How many files a directory has. It is about as many as in a kernel's source.
const FILES_IN_DIRECTORY: u64 = 20;

/// The size of the tree if the tree and its copy together may take this much disk space: the number of
/// files, and the bytes of each. A file system allocates space in blocks; on average half of a file's last
/// block is empty.
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
        rustix::fs::syncfs(&home)?;
        fs::remove_dir_all(copy)?;
    }
}

/// Makes files with different bytes, so that no file system can store equal content once only.
fn make_tree(tree: &Path, files: u64, file_bytes: usize) -> io::Result<()> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..files {
        let directory = tree.join((number / FILES_IN_DIRECTORY).to_string());
        if number % FILES_IN_DIRECTORY == 0 {
            fs::create_dir_all(&directory)?;
        }
        let mut bytes = Vec::with_capacity(file_bytes + 8);
        while bytes.len() < file_bytes {
            // The generator is Marsaglia's xorshift.
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

/// Copies the tree by reads and writes through memory, as `cp` did at the time of the paper. The file system
/// must not share blocks.
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
    fn the_tree_is_the_paper_s_or_as_large_as_the_space_allows() {
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
