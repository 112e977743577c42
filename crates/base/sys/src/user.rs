//! The system's list of users.

use std::ffi::{CStr, OsStr};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The group and the home of a user; `None` if the list does not have the user.
pub fn group_and_home(uid: u32) -> Option<(u32, PathBuf)> {
    let mut text = vec![0_u8; 16 << 10];
    // SAFETY: all its fields are numbers and pointers, for which zero is valid.
    let mut entry: libc::passwd = unsafe { mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: the buffer has the given length; the entry points into it, and both outlive the call.
    let failed = unsafe {
        libc::getpwuid_r(uid, &raw mut entry, text.as_mut_ptr().cast(), text.len(), &raw mut found)
    };
    if failed != 0 || found.is_null() || entry.pw_dir.is_null() {
        return None;
    }
    // SAFETY: the system filled the entry; the home is a C string in the buffer, which still exists.
    let home = unsafe { CStr::from_ptr(entry.pw_dir) };
    Some((entry.pw_gid, PathBuf::from(OsStr::from_bytes(home.to_bytes()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_the_list_and_not_every_number() {
        assert_eq!(group_and_home(0).map(|(gid, home)| (gid, home.is_absolute())), Some((0, true)));
        assert_eq!(group_and_home(u32::MAX - 2), None);
    }
}
