//! The host's name, for the crate x11rb, which looks its entry up by the name in the file of authorities.
//!
//! The published crate of this name has only the licence Apache-2.0, so a binary under GPL-2.0-only may
//! not contain it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The name of this host, as the kernel reports it; empty if it reports none.
pub fn gethostname() -> OsString {
    OsStr::from_bytes(rustix::system::uname().nodename().to_bytes()).to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_is_the_kernel_s() {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel tells its name");
        assert_eq!(super::gethostname().to_str(), Some(kernel.trim_end()));
    }
}
