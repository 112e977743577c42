//! Makes and enters namespaces, and prepares their mounts and their loopback device.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{chdir, chroot, fchdir};
pub use rustix::thread::{LinkNameSpaceType as Kind, UnshareFlags as Kinds};
use rustix::thread::{move_into_link_name_space, unshare_unsafe};

use crate::checked;

/// The inode of the outermost PID namespace (`PROC_PID_INIT_INO`).
const OUTERMOST_PID: u64 = 0xefff_fffc;

/// The inode of this process' PID namespace, which is the kernel's number for it; `None` if the namespace is
/// the outermost one, or if `/proc` does not have it.
pub fn own_pid_namespace() -> Option<u32> {
    let inode = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    (inode != OUTERMOST_PID).then_some(inode)?.try_into().ok()
}

/// Moves the calling thread into new namespaces. If a PID namespace is among them, the thread's next child is
/// its first process.
///
/// # Errors
/// If the thread may not; `EINVAL` for `FILES`, since the thread goes on sharing its process' descriptors.
pub fn unshare(kinds: Kinds) -> io::Result<()> {
    if kinds.contains(Kinds::FILES) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the thread shares its descriptors with its process as before.
    Ok(unsafe { unshare_unsafe(kinds) }?)
}

/// Moves the calling thread into a namespace. Into a PID namespace, only its later children move.
///
/// # Errors
/// If the thread may not, or the file is no namespace of this kind.
pub fn enter(namespace: BorrowedFd<'_>, kind: Kind) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(kind))?)
}

/// The direction in which the mounts of a namespace pass on changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Changes outside come in, and none go out.
    Inwards,
    /// No change comes in or goes out.
    Not,
}

/// Changes how all mounts of this thread's namespace pass on changes. If the thread's root directory is not
/// the root of a mount (in a chroot), the thread moves to the root of the namespace for this change. The
/// thread has mounts of its own, so its directories are its own too.
///
/// # Errors
/// If the thread may not change its mounts.
pub fn spread_mounts(how: Spread) -> io::Result<()> {
    let how = match how {
        Spread::Inwards => MountPropagationFlags::DOWNSTREAM,
        Spread::Not => MountPropagationFlags::PRIVATE,
    };
    let all = || mount_change(c"/", MountPropagationFlags::REC | how);
    match all() {
        Err(rustix::io::Errno::INVAL) => {}
        done => return Ok(done?),
    }
    let root = File::open("/")?;
    chdir(c"/")?;
    // The working directory now lies above the root directory, so the thread can go up from there.
    chroot(c"proc")?;
    for _ in 0..libc::PATH_MAX {
        chdir(c"..")?;
    }
    chroot(c".")?;
    let done = all();
    fchdir(&root)?;
    chroot(c".")?;
    Ok(done?)
}

/// Switches the loopback device of this thread's namespace on.
///
/// # Errors
/// If the thread may not do it.
pub fn raise_loopback() -> io::Result<()> {
    let socket: OwnedFd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: zeros are a valid value of this type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(*b"lo") {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the call reads the request, which outlives it.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request) };
    checked(done).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::*;
    use crate::process;

    #[test]
    fn a_thread_lives_in_namespaces_of_its_own_and_comes_back() {
        if !process::is_root() {
            return assert!(unshare(Kinds::NEWNET).is_err());
        }
        std::thread::spawn(|| {
            let link = || fs::read_link("/proc/thread-self/ns/net").expect("it is there");
            let (outside, file) = (link(), File::open("/proc/thread-self/ns/net").expect("it is there"));
            unshare(Kinds::NEWNET | Kinds::NEWNS).expect("root may");
            assert_ne!(link(), outside);
            raise_loopback().expect("root may");
            std::net::UdpSocket::bind("127.0.0.1:0").expect("the device is on");
            spread_mounts(Spread::Inwards).expect("root may");
            spread_mounts(Spread::Not).expect("root may");
            enter(file.as_fd(), Kind::Network).expect("root may");
            assert_eq!(link(), outside);
            assert!(enter(file.as_fd(), Kind::ProcessID).is_err());
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn a_thread_does_not_part_with_its_descriptors() {
        let error = unshare(Kinds::FILES).expect_err("it is refused");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
