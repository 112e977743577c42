//! The node through which programs make marks: a null device of its own, so that writes to it differ from
//! writes to `/dev/null`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::error::{Error, Result};

/// The device number of `/dev/null`.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// The numbers by which the BPF programs recognise the mark node.
pub(crate) struct Target {
    pub(crate) inode: u64,
    /// The file system's device number in the kernel's own form.
    pub(crate) device: u64,
}

impl Target {
    /// Finds the node, and makes it where it is missing. The node stays when the recording ends.
    ///
    /// If there is a plain file in its place, this removes the file: a privileged program made it by a mark
    /// before there was a node.
    pub(crate) fn find_or_make(path: &Path) -> Result<Target> {
        let failed = |error| Error::MarkNode(path.to_owned(), error);
        if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            fs::remove_file(path).map_err(failed)?;
        }
        if let Err(error) = make(path) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(failed(error));
            }
        }
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        let device = libc::makedev(NULL_DEVICE.0, NULL_DEVICE.1);
        if !metadata.file_type().is_char_device() || metadata.rdev() != device {
            let what = io::Error::other("something else is there");
            return Err(failed(what));
        }
        Ok(Target { inode: metadata.ino(), device: spry_kernel::device(metadata.dev()).into() })
    }
}

fn make(path: &Path) -> io::Result<()> {
    let device = makedev(NULL_DEVICE.0, NULL_DEVICE.1);
    mknodat(CWD, path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), device)?;
    // The process's umask may have taken bits away.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}
