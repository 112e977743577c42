//! Whether files of the cache are as they were written: their size, and a checksum of all that is not a hole.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

/// How much is read at once.
const PIECE: usize = 1 << 20;

/// What tells a damaged file from the one that was written. It is no proof against an owner who forges his own cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    size: u64,
    sum: u32,
}

/// Opens a regular file; whatever else has its name is an error, and is not waited for.
pub(crate) fn regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is no regular file"));
    }
    Ok(file)
}

impl Mark {
    /// Of a file as it is now. Where its data and its holes lie is part of the sum only as far as it shows in content.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let file = regular(path, File::options().read(true))?;
        let size = file.metadata()?.len();
        let mut hash = Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while let Some(data) = next(&file, at, libc::SEEK_DATA)? {
            let end = next(&file, data, libc::SEEK_HOLE)?.unwrap_or(size);
            at = data;
            while at < end {
                let length = PIECE.min((end - at).try_into().unwrap_or(PIECE));
                let piece = &mut piece[..length];
                file.read_exact_at(piece, at)?;
                // A page of zeros and a hole read alike, and a file system may make one of the other.
                if piece.iter().any(|&byte| byte != 0) {
                    hash.update(&at.to_le_bytes());
                    hash.update(piece);
                }
                at += length as u64;
            }
        }
        Ok(Self { size, sum: hash.finalize() })
    }
}

/// Where the next data or the next hole begins; `None` at the file's end.
fn next(file: &File, from: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
    // SAFETY: lseek takes a descriptor that is open for as long as `file` lives, and numbers.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
    if let Ok(found) = u64::try_from(found) {
        return Ok(Some(found));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn a_changed_byte_another_size_and_anything_but_a_file_are_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("memory");
        let mut file = File::create(&path).expect("it can be made");
        file.set_len(40 << 20).expect("it can be sized");
        file.seek(SeekFrom::Start((9 << 20) + 7)).expect("it can be sought");
        file.write_all(b"content").expect("it can be written");
        let mark = Mark::of(&path).expect("it can be read");
        assert_eq!(mark, Mark::of(&path).expect("it can be read"));
        file.write_all(b"!").expect("it can be written");
        assert_ne!(mark, Mark::of(&path).expect("it can be read"));
        file.set_len(10 << 20).expect("it can be sized");
        assert_ne!(mark, Mark::of(&path).expect("it can be read"));
        fs::remove_file(&path).expect("it can be removed");
        fs::create_dir(&path).expect("it can be made");
        assert!(Mark::of(&path).is_err());
    }
}
