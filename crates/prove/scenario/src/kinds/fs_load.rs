//! The parameters of the file-system load.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// The task copies a tree of files and has the copy written to the disk, over and over (Goel et al. 2002,
/// section 4.2.1, copy the sources of a kernel recursively, 13,000 files of 180 MB, and flush the copy).
#[derive(Clone, Debug, PartialEq)]
pub struct FsLoad {
    /// How many files the tree has, 1 to 1,000,000.
    pub files: u64,
    /// The size of all files together, bytes, about.
    pub bytes: u64,
}

impl Parameters for FsLoad {
    const NAME: &'static str = "fs-load";
    const ABOUT: &'static str = "a tree of files copied and flushed, repeated; keys: files, bytes";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let files = keys.whole("files")?.unwrap_or(1300);
        let bytes = keys.bytes("bytes")?.unwrap_or(18_000_000);
        if !(1..=1_000_000).contains(&files) {
            return Err(keys.mistake("files", format!("\"files\" must be from 1 to 1000000, not {files}")));
        }
        Ok(Self { files, bytes })
    }
}
