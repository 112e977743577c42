//! Checks whether files of the cache are unchanged since they were written: their size, and a checksum of all
//! data that is not in holes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crc32fast::Hasher;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// How many bytes are read in one call.
const PIECE: usize = 1 << 20;

/// The size and the checksum of a file: they show whether the file still has the content that was written.
/// They are no protection against users that forge files in their own cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    size: u64,
    sum: u32,
}

/// Opens a regular file. Another kind of file of that name is an error; the call does not wait for it.
pub(crate) fn regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidData, "it is no regular file"));
    }
    Ok(file)
}

impl Mark {
    /// Makes the mark of the present file. The checksum depends on the content only. It is the same if the
    /// same zeros are data or a hole.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let file = regular(path, File::options().read(true))?;
        let size = file.metadata()?.len();
        let mut hash = Hasher::new();
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        while let Some(data) = next(&file, SeekFrom::Data(at))? {
            let end = next(&file, SeekFrom::Hole(data))?.unwrap_or(size);
            at = data;
            while at < end {
                let length = PIECE.min((end - at).try_into().unwrap_or(PIECE));
                let piece = &mut piece[..length];
                file.read_exact_at(piece, at)?;
                // A page of zeros and a hole read alike, and a file system may turn one into the other. So
                // pieces that are all zeros are skipped.
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

/// The offset at which the next data or the next hole begins; `None` at the end of the file.
fn next(file: &File, to: SeekFrom) -> io::Result<Option<u64>> {
    match seek(file, to) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
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
