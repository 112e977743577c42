//! The node through which programs make marks: a null device of its own, so that a write to it can be told apart.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::{Error, Result};

/// The device number of `/dev/null`.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// How the programs know the node.
pub(crate) struct Node {
    pub(crate) inode: u64,
    /// The file system's device number in the kernel's own form.
    pub(crate) device: u64,
}

impl Node {
    /// Finds the node, and makes it where it is missing. It stays when the recording ends.
    ///
    /// A plain file there was made by a privileged program's mark before there was a node; it gives way.
    pub(crate) fn find_or_make(path: &Path) -> Result<Node> {
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
        Ok(Node {
            inode: metadata.ino(),
            device: (u64::from(libc::major(metadata.dev())) << 20) | u64::from(libc::minor(metadata.dev())),
        })
    }
}

fn make(path: &Path) -> io::Result<()> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `name` is a string that ends with 0.
    let failed = unsafe {
        libc::mknod(name.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(NULL_DEVICE.0, NULL_DEVICE.1))
    } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    // The process's umask may have taken bits away.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}
