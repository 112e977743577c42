//! Whether a display's server has this machine's keyboard, mouse or screen open, by its own descriptors.
//!
//! A process can make a link in `/proc` read as it likes, in a mount namespace of its own. So descriptors
//! are taken over and checked themselves. The process that does so ends right after: closing a descriptor
//! that another process made may wait as long as that process likes (a file system in user space is asked
//! when it is closed).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, OFlags, Statx, StatxFlags, fcntl_getfl, statx};
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use spry_display::input::is_of_hands;
use spry_display::wire::Seat;
use spry_policy::Tgid;

/// Major numbers of the kernel's devices. `INPUT`: event devices have the minor numbers from 64 to 95 and
/// from 256 on. `DRM`: the first 64 minor numbers are cards.
const INPUT: u32 = 13;
const DRM: u32 = 226;
/// At most so many descriptors of a server are looked at.
const DESCRIPTORS_MAX: usize = 1024;

/// Looks at a process' open files. `process` is the process itself, `tgid` its number.
pub(crate) fn of(process: BorrowedFd<'_>, tgid: Tgid) -> Seat {
    match has_seat(process, tgid) {
        Ok(true) => Seat::Real,
        Ok(false) => Seat::None,
        Err(_) => Seat::Unknown,
    }
}

fn has_seat(process: BorrowedFd<'_>, tgid: Tgid) -> io::Result<bool> {
    for entry in fs::read_dir(format!("/proc/{}/fd", tgid.0))?.flatten().take(DESCRIPTORS_MAX) {
        // A descriptor that is no input or graphics device is not even taken over. The process may put
        // another file at that number meanwhile, so the descriptor that was taken over decides.
        let looked = statx(rustix::fs::CWD, entry.path(), AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        if !looked.is_ok_and(|found| device(&found).is_some()) {
            continue;
        }
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match pidfd_getfd(process, number, PidfdGetfdFlags::empty()) {
            Ok(descriptor) => {
                let is_seat = is_seat(descriptor.as_fd());
                // The descriptor is left open: it is closed when this process ends, after the answer.
                std::mem::forget(descriptor);
                if is_seat {
                    return Ok(true);
                }
            }
            Err(rustix::io::Errno::PERM) => return Err(io::ErrorKind::PermissionDenied.into()),
            // The process has closed the descriptor meanwhile.
            Err(_) => {}
        }
    }
    Ok(false)
}

/// A device of a seat.
enum Device {
    Input,
    Card,
}

fn device(found: &Statx) -> Option<Device> {
    if FileType::from_raw_mode(found.stx_mode.into()) != FileType::CharacterDevice {
        return None;
    }
    match (found.stx_rdev_major, found.stx_rdev_minor) {
        (INPUT, 64..=95 | 256..) => Some(Device::Input),
        (DRM, 0..=63) => Some(Device::Card),
        _ => None,
    }
}

/// Whether a descriptor reads a keyboard or a pointer, or is the master of a graphics card.
fn is_seat(descriptor: BorrowedFd<'_>) -> bool {
    // The status is read without synchronising: a file system in user space is not asked, so it cannot keep
    // this process waiting.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(found) = statx(descriptor, "", flags, StatxFlags::TYPE) else { return false };
    let Some(device) = device(&found) else { return false };
    let Ok(open) = fcntl_getfl(descriptor) else { return false };
    // A descriptor that was opened for its path alone reads nothing.
    if open.contains(OFlags::PATH) {
        return false;
    }
    match device {
        Device::Input => open & OFlags::RWMODE != OFlags::WRONLY && is_of_hands(descriptor),
        Device::Card => spry_sys::device::is_drm_master(descriptor),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::process::{PidfdFlags, getpid, pidfd_open};

    use super::*;

    #[test]
    fn a_server_without_an_open_device_has_no_seat() {
        let process = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let seat = || of(process.as_fd(), Tgid(std::process::id()));
        assert_eq!(seat(), Seat::None);
        // Neither a device of another kind nor a descriptor for a keyboard's path alone makes a seat.
        let _null = fs::File::open("/dev/null").unwrap();
        let path = fs::read_dir("/dev/input").ok().and_then(|entries| {
            entries.flatten().map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("event"))
        });
        let _path = path.map(|path| OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path));
        assert_eq!(seat(), Seat::None);
        assert_eq!(of(process.as_fd(), Tgid(u32::MAX)), Seat::Unknown);
    }
}
