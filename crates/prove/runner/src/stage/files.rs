//! The files and directories that tasks use.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, symlink};
use std::path::Path;

use super::Stage;

/// A file that a task has open.
#[derive(Debug)]
pub(crate) struct File(fs::File);

impl Stage {
    /// Makes an empty file, or empties the file of this name.
    pub(crate) fn create_file(&self, path: &Path) -> io::Result<File> {
        fs::File::create(path).map(File)
    }

    /// Opens a file to read and to write, and makes it if there is none. A file that is shorter than `bytes`
    /// becomes that long.
    pub(crate) fn open_file(&self, path: &Path, bytes: u64) -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < bytes {
            file.set_len(bytes)?;
        }
        Ok(File(file))
    }

    /// Opens a device to write.
    pub(crate) fn open_device(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).open(path).map(File)
    }

    /// Opens a directory, so that its file system can be flushed.
    pub(crate) fn open_directory(&self, path: &Path) -> io::Result<File> {
        fs::File::open(path).map(File)
    }

    /// Writes a file with these bytes as its contents.
    pub(crate) fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }

    /// Reads a file of text.
    pub(crate) fn text_of(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    /// Copies a file and its permissions.
    pub(crate) fn copy_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::copy(from, to).map(|_| ())
    }

    /// Makes a directory, and the missing directories above it.
    pub(crate) fn make_directories(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    /// Makes a directory that only this user can enter.
    pub(crate) fn make_private_directory(&self, path: &Path) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(path)
    }

    /// Removes a directory with all its contents.
    pub(crate) fn remove_tree(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    /// Makes a symbolic link to a file.
    pub(crate) fn link(&self, file: &Path, link: &Path) -> io::Result<()> {
        symlink(file, link)
    }

    /// Writes a mark into the recorded trace.
    pub(crate) fn mark(&self, text: &str) {
        spry_mark::mark(text);
    }
}

impl File {
    /// Writes all bytes, beginning at the start of the file.
    pub(crate) fn write_at_start(&self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, 0)
    }

    /// Fills the buffer from the start of the file.
    pub(crate) fn read_at_start(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, 0)
    }

    /// Writes all bytes at the end of the last write.
    pub(crate) fn write_on(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    /// Has the file written to its disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Has the file's whole file system written to its disk.
    pub(crate) fn flush_file_system(&self) -> io::Result<()> {
        spry_sys::file::flush_file_system(&self.0)
    }
}
