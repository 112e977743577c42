//! Processes that outlive their caller: what both guardians share. A guardian is forked before anything is changed,
//! and undoes it when its caller ends.

use std::ffi::CStr;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Ends the process in which a panic would otherwise go on into what was copied from its parent.
#[derive(Debug)]
pub struct NoWayBack;

impl Drop for NoWayBack {
    fn drop(&mut self) {
        // SAFETY: ends this process, without what its parent has registered for its own end.
        unsafe { libc::_exit(70) }
    }
}

/// Forks a child that does this and ends with the status that it returns, 70 if it panics; the child's number.
///
/// # Errors
/// Where the kernel refuses.
///
/// # Safety
/// Of several threads the child has the caller's alone: it takes no lock that another may hold. The C library makes its
/// allocator usable after a fork.
pub unsafe fn fork(child: impl FnOnce() -> libc::c_int) -> io::Result<libc::pid_t> {
    // SAFETY: the child never returns from here, and the caller answers for what it does.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _never = NoWayBack;
            let status = child();
            // SAFETY: as above.
            unsafe { libc::_exit(status) }
        }
        tgid => Ok(tgid),
    }
}

/// A descriptor that tells when a process has ended: it can be read then.
///
/// # Errors
/// Where there is no such process, or no descriptor to be had.
pub fn open_process(tgid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: the call takes only numbers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tgid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Nothing that ends the caller's group, session or terminal ends the calling process any more; of its descriptors it
/// holds these only, and its working directory is the root. The process has one thread.
pub fn detach(keep: &[RawFd], name: &CStr) {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    // SAFETY: these calls take numbers, texts that end with 0, and descriptors that nobody else in this process uses:
    // it has one thread.
    unsafe {
        libc::setsid();
        for signal in 1..=libc::SIGSYS {
            let own = [libc::SIGCHLD, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];
            let disposition = if own.contains(&signal) { libc::SIG_DFL } else { libc::SIG_IGN };
            libc::signal(signal, disposition);
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for stream in 0..=2 {
            if null >= 0 {
                libc::dup2(null, stream);
            } else {
                libc::close(stream);
            }
        }
        let mut first = 3;
        for &fd in &keep {
            if fd > first {
                libc::syscall(libc::SYS_close_range, first, fd - 1, 0);
            }
            first = first.max(fd + 1);
        }
        libc::syscall(libc::SYS_close_range, first, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::chdir(c"/".as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn status_of(child: libc::pid_t) -> libc::c_int {
        let mut status = 0;
        // SAFETY: the status is ours, and the process our child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_ends_with_its_status_and_one_that_panics_does_not_go_on_as_its_parent() {
        // SAFETY: the children take no lock but standard error's, which this test does not hold.
        let (good, bad) = unsafe {
            (fork(|| 3).expect("a child"), fork(|| std::panic::resume_unwind(Box::new(()))).expect("a child"))
        };
        assert_eq!((status_of(good), status_of(bad)), (3, 70));
    }

    #[test]
    fn a_detached_process_keeps_what_it_is_told_and_tells_its_end() {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let (mut lost, other) = UnixStream::pair().expect("a pair");
        // SAFETY: the child takes no lock.
        let child = unsafe {
            fork(|| {
                detach(&[theirs.as_raw_fd()], c"spry-detached");
                let mut theirs = &theirs;
                i32::from(theirs.write_all(b"x").is_err() || theirs.read_exact(&mut [0]).is_err())
            })
        };
        let child = child.expect("a child");
        let process = open_process(child).expect("a descriptor");
        drop(other);
        ours.read_exact(&mut [0]).expect("it says that it is detached");
        assert_eq!(lost.read(&mut [0]).expect("the other line is closed"), 0);
        ours.write_all(b"x").expect("it listens");
        assert_eq!(status_of(child), 0);
        let mut polled = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, as is said.
        assert_eq!(unsafe { libc::poll(&raw mut polled, 1, 10_000) }, 1);
    }
}
