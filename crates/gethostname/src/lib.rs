//! The host's name, for x11rb, which looks its authority entry up by it.
//!
//! The published crate of this name is under Apache-2.0 alone, which a binary under GPL-2.0-only may not hold.

use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

/// The name of this host, as the kernel has it; empty if it does not say.
pub fn gethostname() -> OsString {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the call fills what it is given, which all zeroes are also fine for.
    let names = unsafe {
        libc::uname(names.as_mut_ptr());
        names.assume_init()
    };
    // SAFETY: the kernel ends the name with a zero byte, or it is all zeroes.
    let name = unsafe { CStr::from_ptr(names.nodename.as_ptr()) };
    OsStr::from_bytes(name.to_bytes()).to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_name_is_the_kernel_s() {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel tells its name");
        assert_eq!(super::gethostname().to_str(), Some(kernel.trim_end()));
    }
}
